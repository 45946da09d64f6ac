package idlehttp

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestShutdownOfNil passes a listener that Wrap has not returned.
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

// TestSeveralListenersBeforeServe are fine, and so is one after another has been closed.
func TestSeveralListenersBeforeServe(t *testing.T) {
	server := &http.Server{}
	for range 3 {
		l, err := Wrap(server, httpsuite.Listen(t), Timeouts{})
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
	httpsuite.WantError(t, Watch(nil, idle.Policy{IdleTimeout: time.Second}, Callbacks{}), "idlehttp: Watch: the request is nil")
}

// TestForgottenUnits: a number without a unit is nanoseconds.
func TestForgottenUnits(t *testing.T) {
	limits := func(l Timeouts) error {
		ln, err := Wrap(&http.Server{}, httpsuite.Listen(t), l)
		if err == nil {
			ln.Close()
		}
		return err
	}
	l, err := Wrap(&http.Server{}, httpsuite.Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	for want, err := range map[string]error{
		"HandshakeTimeout is 30ns, shorter than the tick": limits(Timeouts{HandshakeTimeout: 30}),
		"WriteRate.Grace is 5ns, shorter than the tick":   limits(Timeouts{WriteRate: idle.Rate{BytesPerSecond: 1, Grace: 5}}),
		"Hijacked.IdleTimeout is 30ns":                    limits(Timeouts{Hijacked: idle.Policy{IdleTimeout: 30}}),
		"LameDuck of 30ns":                                LameDuck(ctx, 30, l),
		"Drain.Duration is 30ns":                          Shutdown(ctx, idle.Drain{Duration: 30}, l),
		"shorter than the CloseDelay of 10s":              Shutdown(ctx, idle.Drain{CloseDelay: 10 * time.Second, ForceAfter: time.Second}, l),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "idlehttp: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q; got %v", want, err)
		}
	}
}

// TestServesAlready: the hooks of a server cannot be replaced while it uses them.
func TestServesAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t, false, Timeouts{}, echo)
		s.Dial().Get("/")
		_, err := Wrap(s.server, httpsuite.Listen(t), Timeouts{})
		httpsuite.WantError(t, err, "idlehttp: the server serves already")
	})
}

// SetLimits refuses requests that came another way, or are over.
func TestSetLimitsOfOthers(t *testing.T) {
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	httpsuite.WantError(t, SetLimits(r, RequestLimits{}), "idlehttp: SetLimits: ", "did not arrive")
	synctest.Test(t, func(t *testing.T) {
		served := make(chan *http.Request, 1)
		s := startInMemory(t, false, httpsuite.Only(300*ms, "KeepAliveTimeout"), func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			httpsuite.WantError(t, SetLimits(r.WithContext(ctx), RequestLimits{}), "idlehttp: SetLimits: ", "cancelled")
			served <- r
		})
		c := s.Dial()
		begun := c.Send(httpsuite.Get("/"))
		c.Want(http.StatusOK)
		httpsuite.WantError(t, SetLimits(httpsuite.Receive(t, served), RequestLimits{BodyTimeout: httplimits.Off}), "has ended")
		httpsuite.NotBefore(t, c.WantClosed(), begun, 300*ms)
		s.WantOnly(1, "keep-alive", idle.ReasonPhase)
	})
}
