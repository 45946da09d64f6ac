package httpsuite

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A register records which requests the server has executed, and which clients have got the
// whole response.
type register struct {
	executed, answered sync.Map // by path
	requests           atomic.Int64
}

// handle responds slowly, so that the connection may end in the middle.
func (g *register) handle(r Request) {
	g.executed.Store(r.Path(), nil)
	r.Stream(func(w io.Writer, flush func() error) {
		for range 5 {
			io.WriteString(w, "chunk")
			if flush() != nil {
				return
			}
			time.Sleep(4 * ms)
		}
	})
}

// get makes a request, which may fail. It reports whether the connection can be used again.
func (g *register) get(c *Client) bool {
	path := g.path()
	if _, err := io.WriteString(c, Get(path)); err != nil {
		return false
	}
	return g.response(c, path)
}

// path returns a path that no other request has.
func (g *register) path() string { return "/" + strconv.FormatInt(g.requests.Add(1), 10) }

// response reads a response, and records it if it's whole. It reports whether the connection
// can be used again.
func (g *register) response(c *Client, path string) bool {
	response, err := http.ReadResponse(c.In, nil)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if b, err := io.ReadAll(response.Body); err != nil || len(b) != 5*len("chunk") {
		return false
	}
	g.answered.Store(path, nil)
	return !response.Close
}

// dial connects to s. It returns nil if the connection ends before its handshake is done.
func (g *register) dial(s *Site) *Client {
	c := s.DialBare()
	if s.Secure {
		_, config := Identity()
		secure := tls.Client(c.Conn, config)
		if secure.Handshake() != nil {
			c.Close()
			return nil
		}
		c.Conn = secure
		c.In.Reset(secure)
	}
	return c
}

// repeat makes requests, with a rest between them, until one fails or while returns false.
func (g *register) repeat(s *Site, while func() bool, rest func() time.Duration) {
	c := g.dial(s)
	if c == nil {
		return
	}
	defer c.Close()
	for g.get(c) && while() {
		time.Sleep(rest())
	}
}

// meetsTotal has clients send n bytes of their first request at once, and the rest just when
// the limit passes.
func meetsTotal(t *testing.T, u under, name string, n int) {
	var g register
	s := u.start(t, Only(limit, name), g.handle)
	var done sync.WaitGroup
	lasts := during(crowdTime())
	for range 60 {
		done.Go(func() {
			for lasts() {
				g.once(s, n, limit+rand.N(50*ms))
			}
		})
	}
	done.Wait()
	g.check(t)
}

// once makes one request: n bytes of it at once, and the others after rest.
func (g *register) once(s *Site, n int, rest time.Duration) {
	c := g.dial(s)
	if c == nil {
		return
	}
	defer c.Close()
	path := g.path()
	if _, err := io.WriteString(c, Get(path)[:n]); err != nil {
		return
	}
	time.Sleep(rest - time.Since(c.Begun))
	if _, err := io.WriteString(c, Get(path)[n:]); err == nil {
		g.response(c, path)
	}
}

// check checks that every executed request was answered.
func (g *register) check(t *testing.T) {
	t.Helper()
	executed, cut := 0, 0
	g.executed.Range(func(path, _ any) bool {
		executed++
		if _, ok := g.answered.Load(path); !ok {
			cut++
		}
		return true
	})
	if cut > 0 {
		t.Errorf("%d of %d requests that were executed have no whole response", cut, executed)
	}
	t.Logf("%d of %d requests were executed", executed, g.requests.Load())
}

// during returns a function that returns true until d has passed.
func during(d time.Duration) func() bool {
	begun := time.Now()
	return func() bool { return time.Since(begun) < d }
}

// crowdTime is how long clients keep coming back.
func crowdTime() time.Duration {
	if testing.Short() {
		return time.Second
	}
	return 3 * time.Second
}

// A request that arrives just as its connection ends is either executed and answered, or not
// executed at all.
var ofLateRequests = []promise{
	// Then the client may send it again, because it has got no byte of a response.
	{"LateRequestIsNotExecuted", usual, func(t *testing.T, u under) {
		to := Only(limit, "KeepAliveTimeout")
		var c atomic.Pointer[Client]
		to.Idle.OnEnds = func([]idle.End) {}
		to.Idle.Label = func(any) string { // called after the end has been decided, and before OnEnd and Expire
			if c := c.Load(); c != nil {
				io.WriteString(c, Get("/late"))
				time.Sleep(50 * ms) // so that the server could read it
			}
			return ""
		}
		s := u.start(t, to, func(r Request) {
			if r.Path() == "/late" {
				t.Error("it was executed")
			}
		})
		client := s.Dial()
		client.Get("/")
		c.Store(client)
		client.WantClosed()
		s.WantOnly(1, "keep-alive", idle.ReasonPhase)
	}},

	{"LateRequestMeetsKeepAliveTimeout", usual, func(t *testing.T, u under) {
		var g register
		s := u.start(t, Only(limit, "KeepAliveTimeout"), g.handle)
		var done sync.WaitGroup
		lasts := during(crowdTime())
		for range 60 {
			done.Go(func() {
				for lasts() {
					g.repeat(s, lasts, func() time.Duration { return limit + rand.N(50*ms) })
				}
			})
		}
		done.Wait()
		g.check(t)
	}},

	{"LateRequestMeetsHeaderTimeout", usual, func(t *testing.T, u under) {
		meetsTotal(t, u, "HeaderTimeout", 1)
	}},

	{"LateRequestMeetsHandshakeTimeout", usual, func(t *testing.T, u under) {
		meetsTotal(t, u, "HandshakeTimeout", 0)
	}},

	{"LateRequestMeetsDrain", usual, func(t *testing.T, u under) {
		var g register
		s := u.start(t, All(Patience), g.handle)
		var done sync.WaitGroup
		var ready atomic.Int64
		const clients = 150
		for range clients {
			done.Go(func() {
				g.repeat(s, func() bool { return true }, func() time.Duration {
					ready.Add(1)
					return rand.N(100 * ms)
				})
			})
		}
		Eventually(t, "all clients have made a request", func() bool { return ready.Load() >= clients })
		ended := s.drain(idle.Drain{Duration: crowdTime() / 4})
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
		done.Wait()
		g.check(t)
	}},

	{"LateRequestMeetsEviction", usual, func(t *testing.T, u under) {
		var g register
		s := u.start(t, All(Patience), g.handle)
		if err := s.Tracker().SetCapacity(idle.Capacity{MaxConns: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		lasts := during(crowdTime())
		for range 60 {
			done.Go(func() {
				for lasts() {
					g.repeat(s, lasts, func() time.Duration { return rand.N(50 * ms) })
				}
			})
		}
		for lasts() {
			s.Tracker().EvictIdle(1)
			time.Sleep(2 * ms)
		}
		done.Wait()
		g.check(t)
	}},
}
