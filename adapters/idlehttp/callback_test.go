package idlehttp

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// OnTimeout can keep a connection for another limit's length, and is told what
// the limit was.
func TestOnTimeoutKeeps(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		for name, test := range map[string]struct {
			text, phase string
			reason      idle.Reason
			status      int
		}{
			"header":     {"GET", "request header", idle.ReasonReadTotal, http.StatusRequestTimeout},
			"body":       {post("10") + "hello", "request", idle.ReasonRead, http.StatusRequestTimeout},
			"handler":    {get("/long"), "request", idle.ReasonPhase, http.StatusServiceUnavailable},
			"keep-alive": {"", "keep-alive", idle.ReasonRead, 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const limit = 300 * ms
				limits := off()
				*map[string]*time.Duration{
					"header": &limits.HeaderTimeout, "body": &limits.BodyTimeout,
					"handler": &limits.HandlerTimeout, "keep-alive": &limits.KeepAliveTimeout,
				}[name] = limit
				var first gate // or the request before may take too long
				var early atomic.Uint64
				type question struct {
					peer string
					err  idle.TimeoutError
				}
				asked := make(chan question, 10)
				times := 0
				limits.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
					if first.keep(c, err) {
						early.Add(1)
						return true
					}
					asked <- question{c.RemoteAddr().String(), *err}
					times++
					return times < 3
				}
				s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/long" {
						<-r.Context().Done()
						return
					}
					echo(w, r)
				})
				c := s.dial()
				begun := c.send(get("/"))
				c.want(http.StatusOK)
				first.open()
				if test.text != "" {
					begun = c.send(test.text)
				}
				if test.status != 0 {
					c.want(test.status)
				}
				notBefore(t, c.wantClosed(), begun, 3*limit)
				for range 3 {
					q := receive(t, asked)
					if q.peer != c.LocalAddr().String() || q.err.Phase != test.phase || q.err.Reason != test.reason || q.err.Setting != settingOf(test.phase, test.reason) || q.err.Limit != limit || q.err.Elapsed < limit {
						t.Errorf("asked of %s about %+v", q.peer, q.err)
					}
				}
				s.wantOnly(1, test.phase, test.reason)
				if n := s.Stats().Kept - early.Load(); n != 2 {
					t.Errorf("kept %d times", n)
				}
			})
		}
	})
}

// The server's hooks still work, and see the connection that they always saw.
func TestHooksOfTheUser(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		type key struct{}
		var mu sync.Mutex
		var states []http.ConnState
		var conns []net.Conn
		s := start(t, secure, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if nc := r.Context().Value(key{}); nc != conns[0] {
				t.Errorf("the context has %v", nc)
			}
		}, func(server *http.Server) {
			server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, nc)
				return context.WithValue(ctx, key{}, nc)
			}
			server.ConnState = func(nc net.Conn, to http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				conns, states = append(conns, nc), append(states, to)
			}
		})
		c := s.dial()
		for range 2 {
			c.send(get("/"))
			c.want(http.StatusOK)
		}
		c.Close()
		want := []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateActive, http.StateIdle, http.StateClosed}
		eventually(t, "the hooks are called", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(states, want)
		})
		for _, nc := range conns {
			if nc != conns[0] {
				t.Errorf("a hook is called with another connection")
			}
		}
		if _, tcp := conns[0].RemoteAddr().(*net.TCPAddr); !tcp {
			t.Errorf("the address is a %T", conns[0].RemoteAddr())
		}
	})
}

// A callback that takes its time delays no other connection's limits.
func TestOnTimeoutMayBlock(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HeaderTimeout = 200 * ms
	release, asked := make(chan bool), make(chan bool, 2)
	limits.OnTimeout = func(net.Conn, *idle.TimeoutError) bool {
		asked <- true
		<-release
		return false
	}
	s := serve(t, limits, unreachable(t))
	c, d := s.dial(), s.dial()
	begun := c.send("G")
	d.send("G")
	receive(t, asked)
	receive(t, asked)
	close(release)
	for _, c := range []*client{c, d} {
		_, at := c.want(http.StatusRequestTimeout)
		notBefore(t, at, begun, limits.HeaderTimeout)
	}
	time.Sleep(ms)
}
