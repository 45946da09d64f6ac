package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// TestReadTimeouts reads files that are right and wrong.
func TestReadTimeouts(t *testing.T) {
	for text, want := range map[string]idlehttp.Timeouts{
		`{}`: {},
		`{"BodyTimeout": "1m", "KeepAliveTimeout": "off"}`: {BodyTimeout: time.Minute, KeepAliveTimeout: idlehttp.Off},
	} {
		if got, err := readTimeouts(write(t, text)); err != nil || got.BodyTimeout != want.BodyTimeout || got.KeepAliveTimeout != want.KeepAliveTimeout {
			t.Errorf("%s: %v, %v; %v", text, got.BodyTimeout, got.KeepAliveTimeout, err)
		}
	}
	for text, says := range map[string]string{`{"Body": "1m"}`: `"Body"`, `{"BodyTimeout": "long"}`: "BodyTimeout", `{`: "JSON"} {
		if _, err := readTimeouts(write(t, text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "timeouts.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
