package idlefasthttp

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// TestShutdownOfNil passes a listener that Wrap has not returned.
func TestShutdownOfNil(t *testing.T) {
	err := Shutdown(context.Background(), idle.Drain{}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "idlefasthttp: Shutdown: a listener is nil") {
		t.Error(err)
	}
}

// TestPressureOnStreams tightens a limit that fasthttp does not have.
func TestPressureOnStreams(t *testing.T) {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Wrap(&fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}, bare, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := pressure.Config{Read: func() (float64, error) { return 1, nil }}
	if _, err := l.FollowPressure(c, Timeouts{StreamTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "StreamTimeout is 1s") {
		t.Error(err)
	}
	if _, err := l.FollowPressure(c, Timeouts{KeepAliveTimeout: time.Second}); err != nil {
		t.Error(err)
	}
}

// TestShutdownOfNothing: forgetting the listener is an error.
func TestShutdownOfNothing(t *testing.T) {
	httpsuite.WantError(t, Shutdown(context.Background(), idle.Drain{}), "idlefasthttp: Shutdown of no listener")
	httpsuite.WantError(t, LameDuck(context.Background(), time.Second), "idlefasthttp: LameDuck of no listener")
}
