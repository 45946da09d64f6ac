//go:build proof

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// TestWrapper loads a configuration that's wrong, and one with a limit of a second.
func TestWrapper(t *testing.T) {
	wrong := strings.Replace(string(config), `"5m"`, `"-5m"`, 1)
	if err := caddy.Load([]byte(wrong), true); err == nil || !strings.Contains(err.Error(), "idle: IdleTimeout is -5m0s") {
		t.Errorf("an IdleTimeout of -5m: %v", err)
	}
	socket := filepath.Join(t.TempDir(), "caddy")
	text := strings.NewReplacer("127.0.0.1:8080", "unix/"+socket, "5m", "1s").Replace(string(config))
	if err := caddy.Load([]byte(text), true); err != nil {
		t.Fatal(err)
	}
	defer caddy.Stop()
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }
	res, err := (&http.Client{Transport: &http.Transport{DialContext: dial}}).Get("http://any")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "hello" {
		t.Errorf("got %q", body)
	}
	silent, err := dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	silent.SetReadDeadline(time.Now().Add(30 * time.Second)) // Caddy's own limit is a minute
	if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a silent client read %v", err)
	}
}
