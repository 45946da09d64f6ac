package idlehttp

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestShutdownOfNil passes a listener that NewListener has not returned.
func TestShutdownOfNil(t *testing.T) {
	err := Shutdown(context.Background(), idle.Drain{}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "idlehttp: Shutdown: a listener is nil") {
		t.Error(err)
	}
}

// TestShutdownOfNothing: forgetting the listener is an error.
func TestShutdownOfNothing(t *testing.T) {
	httpsuite.WantError(t, Shutdown(context.Background(), idle.Drain{}), "idlehttp: Shutdown of no listener")
	httpsuite.WantError(t, LameDuck(context.Background(), time.Second), "idlehttp: LameDuck of no listener")
}

// TestServesAlready: the hooks of a server cannot be replaced while it uses them.
func TestServesAlready(t *testing.T) {
	s := start(t, false, Timeouts{}, echo)
	c := s.Dial()
	c.Get("/")
	_, err := NewListener(s.server, httpsuite.Listen(t), Timeouts{})
	httpsuite.WantError(t, err, "idlehttp: the server serves already")
}

// TestSeveralListenersBeforeServe are fine, and so is one after another has been closed.
func TestSeveralListenersBeforeServe(t *testing.T) {
	server := &http.Server{}
	for range 3 {
		l, err := NewListener(server, httpsuite.Listen(t), Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		l.Accept()
	}
}

// TestNilRequest is refused, and does not panic with a runtime error.
func TestNilRequest(t *testing.T) {
	httpsuite.WantError(t, SetLimits(nil, RequestLimits{}), "idlehttp: SetLimits: the request is nil")
	httpsuite.WantError(t, Watch(nil, idle.Policy{IdleTimeout: time.Second}, nil), "idlehttp: Watch: the request is nil")
}
