package idlefasthttp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestShutdownOfNil passes a listener that Wrap has not returned.
func TestShutdownOfNil(t *testing.T) {
	err := Shutdown(context.Background(), idle.Drain{}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "idlefasthttp: Shutdown: a listener is nil") {
		t.Error(err)
	}
}

// TestShutdownOfNothing: forgetting the listener is an error.
func TestShutdownOfNothing(t *testing.T) {
	httpsuite.WantError(t, Shutdown(context.Background(), idle.Drain{}), "idlefasthttp: Shutdown of no listener")
	httpsuite.WantError(t, LameDuck(context.Background(), time.Second), "idlefasthttp: LameDuck of no listener")
}
