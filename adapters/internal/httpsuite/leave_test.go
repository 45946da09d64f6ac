package httpsuite

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// ofLeaving are about replacing one server with another.
var ofLeaving = []promise{
	// A lame duck serves old and new connections, and asks their clients to close.
	{"LameDuck", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		old, unused := s.Dial(), s.Dial()
		old.Get("/")
		unused.Get("/")
		if s.IsDraining() {
			t.Error("it leaves before it is told to")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Setup.LameDuck(ctx, time.Hour) }()
		Eventually(t, "it says that it leaves", s.IsDraining)
		for _, c := range []*Client{old, s.Dial()} {
			c.Send(Post(2) + "ab")
			r := c.Response()
			if b, err := io.ReadAll(r.Body); string(b) != "ab" || err != nil || !r.Close {
				t.Errorf("%q, %v, asks to close: %v", b, err, r.Close)
			}
			c.WantClosed()
		}
		if st := s.Stats(); st.Live == 0 {
			t.Error("a connection that is not used was closed")
		}
		cancel()
		if err := Receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		WantError(t, s.Setup.LameDuck(context.Background(), 0), u.pkg+": LameDuck of 0s")
		unused.Close()
	}},

	// During a Drain of the tracker IsDraining is true. When that is cancelled, the server stays.
	{"IsDrainingDuringDrain", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		c := s.Dial()
		c.Get("/")
		drain, err := s.Tracker().Drain(idle.Drain{CloseDelay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if !s.IsDraining() {
			t.Error("a Drain does not count as one")
		}
		Eventually(t, "the client is to be told", func() bool { return s.Setup.Told() == 1 })
		drain.Cancel()
		if s.IsDraining() {
			t.Error("a Drain that was cancelled counts as one")
		}
	}},

	// In HTTP/2, a client that uses its connection gets a GOAWAY, and opens another one.
	{"LameDuckOfHTTP2", secure, func(t *testing.T, u under) {
		if !u.speaksHTTP2 {
			t.Skip("the server does not speak HTTP/2")
		}
		s := u.start(t, All(Patience), echo)
		tr := transport("HTTP/2", true, func(context.Context, string, string) (net.Conn, error) { return s.Memory.Dial() })
		defer tr.CloseIdleConnections()
		get := func() {
			r, err := tr.RoundTrip(httptest.NewRequest("GET", "https://example.com/", nil))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		get()
		get()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go s.Setup.LameDuck(ctx, time.Hour)
		Eventually(t, "it says that it leaves", s.IsDraining)
		Eventually(t, "the client opens another connection", func() bool { get(); return s.Stats().Tracked > 1 })
	}},
}

// transport returns a client of one protocol that connects by dial.
func transport(protocol string, secure bool, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	tr := &http.Transport{MaxIdleConnsPerHost: 20, Protocols: new(http.Protocols), DialContext: dial}
	tr.Protocols.SetHTTP1(protocol == "HTTP/1")
	tr.Protocols.SetHTTP2(protocol == "HTTP/2")
	if secure {
		_, tr.TLSClientConfig = Identity()
	}
	return tr
}
