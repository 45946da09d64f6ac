package main

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestInvalid(t *testing.T) {
	wrong := strings.Replace(string(config), `"5m"`, `"-5m"`, 1)
	if err := caddy.Load([]byte(wrong), true); err == nil || !strings.Contains(err.Error(), "idle: IdleTimeout is -5m0s") {
		t.Errorf("a configuration with an IdleTimeout of -5m: %v", err)
	}
}
