//go:build proof

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

func TestWrapper(t *testing.T) {
	address := fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000)) // systems give others higher ports
	load := func(idleTimeout string) {
		text := strings.NewReplacer("127.0.0.1:8080", address, "5m", idleTimeout).Replace(string(config))
		if err := caddy.Load([]byte(text), true); err != nil {
			t.Fatal(err)
		}
	}
	load("5m")
	defer caddy.Stop()
	res, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "hello" {
		t.Errorf("got %q", body)
	}

	load("1s")
	err = beSilent(t, address)
	for tries := 1; tries < 10 && errors.Is(err, syscall.ECONNRESET); tries++ { // it was waiting to be accepted when Caddy closed its old listener
		err = beSilent(t, address)
	}
	if err != io.EOF {
		t.Errorf("a silent client read %v", err)
	}
}

// beSilent returns how a connection ends whose client sends nothing.
func beSilent(t *testing.T, address string) error {
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	silent.SetReadDeadline(time.Now().Add(30 * time.Second)) // Caddy's own limit is a minute
	_, err = silent.Read(make([]byte, 1))
	return err
}
