package idlehttp

import (
	"context"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

// TestShutdownOfNil passes a listener that NewListener has not returned.
func TestShutdownOfNil(t *testing.T) {
	err := Shutdown(context.Background(), idle.Drain{}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "idlehttp: Shutdown: a listener is nil") {
		t.Error(err)
	}
}
