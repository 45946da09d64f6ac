//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// TestEveryMode has an active and a silent connection in each of gnet's modes:
// only the silent one is closed, its handler learns why, and is disturbed in
// nothing else.
func TestEveryMode(t *testing.T) {
	t.Parallel()
	modes := map[string]struct {
		addresses []string
		opts      []gnet.Option
	}{
		"one loop":       {tcp(), nil},
		"reactors":       {tcp(), []gnet.Option{gnet.WithNumEventLoop(3)}},
		"reuseport":      {tcp(), []gnet.Option{gnet.WithNumEventLoop(3), gnet.WithReusePort(true)}},
		"edge-triggered": {tcp(), []gnet.Option{gnet.WithNumEventLoop(2), gnet.WithEdgeTriggeredIO(true)}},
		"locked threads": {tcp(), []gnet.Option{gnet.WithNumEventLoop(2), gnet.WithLockOSThread(true)}},
		"unix":           {[]string{"unix://"}, []gnet.Option{gnet.WithNumEventLoop(2)}},
		"several":        {[]string{"tcp://127.0.0.1:0", "unix://", "tcp://127.0.0.1:0"}, []gnet.Option{gnet.WithNumEventLoop(2)}},
		"with UDP":       {[]string{"tcp://127.0.0.1:0", "udp://127.0.0.1:0"}, []gnet.Option{gnet.WithNumEventLoop(2)}},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			const limit = 300 * ms
			inTime := intime.Of(t, limit/4)
			closed, onClose := closings()
			var said sync.Map // what each connection has said last
			h := &handler{
				open: func(c gnet.Conn) ([]byte, gnet.Action) {
					c.SetContext(c)
					return nil, gnet.None
				},
				traffic: func(c gnet.Conn) gnet.Action {
					b, _ := c.Next(-1)
					said.Store(c, string(b))
					c.Write(b)
					return gnet.None
				},
				close: func(c gnet.Conn, err error) gnet.Action {
					if c.Context() != c {
						t.Error("the context was touched")
					}
					return onClose(c, err)
				},
			}
			s := serve(t, h, idle.Policy{IdleTimeout: limit}, nil, mode.addresses, mode.opts...)
			for _, address := range mode.addresses {
				silent, active := dial(t, address), dial(t, address)
				exchange(inTime, active, "active")
				if active.LocalAddr().Network() == "udp" {
					continue // that is all there is to it
				}
				begun := time.Now()
				exchange(inTime, silent, "silent")
				// What makes it live is that its exchanges go on without a gap.
				for len(closed) == 0 {
					exchange(inTime, active, "active")
					if time.Since(begun) > patience {
						t.Fatal("the silent connection stayed")
					}
				}
				got := receive(t, closed)
				if what, _ := said.Load(got.c); what != "silent" {
					inTime.Fatalf("the %v connection was closed by %v", what, got.err)
				}
				expectTimeout(inTime, got, idle.ReasonIdle, begun, limit)
				if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
					t.Error("the client saw ", err)
				}
				active.Close()
				if got := receive(t, closed); !errors.Is(got.err, io.EOF) {
					inTime.Error("the error of a connection that its client closed became ", got.err)
				}
			}
			s.stop(t)
			st := s.Stats()
			if st.Live != 0 || st.Tracked != st.Closed+st.TimedOut[idle.ReasonIdle] || st.TimedOut[idle.ReasonIdle] != st.Closed {
				inTime.Errorf("the counts are wrong: %+v", st)
			}
		})
	}
}

func TestTimeoutErrorIsOneOfNet(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{ReadTimeout: 20 * ms}, nil, tcp())
	begun := time.Now()
	dial(t, s.address)
	got := receive(t, closed)
	expectTimeout(t, got, idle.ReasonRead, begun, 20*ms)
	var ne net.Error
	if !errors.As(got.err, &ne) || !ne.Timeout() || !errors.Is(got.err, os.ErrDeadlineExceeded) {
		t.Error("it is none: ", got.err)
	}
}

// TestWakeIsNoActivity wakes a silent connection all the time.
func TestWakeIsNoActivity(t *testing.T) {
	if !kernel.SeesOutput {
		t.Skip("the kernel doesn't tell when bytes arrived, so those that are left may be new")
	}
	const limit = 200 * ms
	closed, onClose := closings()
	conns := make(chan gnet.Conn, 1)
	var wakes atomic.Int64
	s := serve(t, &handler{
		open: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None },
		traffic: func(c gnet.Conn) gnet.Action {
			if wakes.Add(1) == 1 {
				c.Next(1) // of the three bytes that came; two stay in the buffer
			}
			return gnet.None
		},
		close: onClose,
	}, idle.Policy{IdleTimeout: limit}, nil, tcp())
	inTime := intime.Of(t, limit/4)
	nc := dial(t, s.address)
	begun := time.Now()
	nc.Write([]byte("abc"))
	c := receive(t, conns)
	for len(closed) == 0 && time.Since(begun) < patience {
		c.Wake(nil)
		time.Sleep(ms)
	}
	if len(closed) == 0 {
		t.Fatal("it stayed while it was being woken")
	}
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, limit)
	if wakes.Load() < 10 {
		inTime.Error("there were hardly any wakes")
	}
}

// TestPartialMessages leaves bytes in gnet's buffer for a long time while more
// of them arrive, one by one: each is an activity.
func TestPartialMessages(t *testing.T) {
	const limit, size = 300 * ms, 40
	closed, onClose := closings()
	whole := make(chan int, 1)
	s := serve(t, &handler{
		traffic: func(c gnet.Conn) gnet.Action {
			if c.InboundBuffered() == size {
				b, _ := c.Next(size)
				whole <- len(b)
			}
			return gnet.None
		},
		close: onClose,
	}, idle.Policy{IdleTimeout: limit}, nil, tcp())
	inTime := intime.Of(t, limit/4)
	nc := dial(t, s.address)
	begun := time.Now()
	for range size {
		nc.Write([]byte{'x'})
		time.Sleep(limit / 30)
	}
	select {
	case <-whole:
	case got := <-closed:
		inTime.Fatal("closed: ", got.err)
	}
	if time.Since(begun) < limit {
		t.Error("that took too little time to show anything")
	}
	if len(closed) > 0 {
		inTime.Error("closed: ", receive(t, closed).err)
	}
}

// TestReadOutsideOnTraffic has bytes read in a callback of which the adapter
// does not know. What arrives next is an activity even if it is less.
func TestReadOutsideOnTraffic(t *testing.T) {
	const limit = 200 * ms
	closed, onClose := closings()
	conns := make(chan gnet.Conn, 1)
	s := serve(t, &handler{
		open:    func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None },
		traffic: func(c gnet.Conn) gnet.Action { return gnet.None },
		close:   onClose,
	}, idle.Policy{IdleTimeout: limit}, nil, []string{"unix://"}) // where the kernel cannot make up for it
	inTime := intime.Of(t, limit/4)
	nc := dial(t, s.address)
	c := receive(t, conns)
	for size := 60; size > 0; size-- {
		time.Sleep(limit / 20)
		nc.Write(make([]byte, size))
		c.AsyncWrite(nil, func(c gnet.Conn, err error) error {
			c.Discard(-1)
			return nil
		})
	}
	if len(closed) > 0 {
		inTime.Error("closed: ", receive(t, closed).err)
	}
}

// TestActions has the handler's own actions honoured, those of OnClose after a
// timeout included.
func TestActions(t *testing.T) {
	t.Run("close in OnOpen", func(t *testing.T) {
		closed, onClose := closings()
		s := serve(t, &handler{
			open:  func(c gnet.Conn) ([]byte, gnet.Action) { return []byte("bye"), gnet.Close },
			close: onClose,
		}, idle.Policy{IdleTimeout: time.Minute}, nil, tcp())
		got, err := io.ReadAll(dial(t, s.address))
		if string(got) != "bye" || err != nil {
			t.Errorf("the client got %q, %v", got, err)
		}
		if c := receive(t, closed); c.err != nil {
			t.Error("OnClose got ", c.err)
		}
	})
	t.Run("close in OnTraffic", func(t *testing.T) {
		closed, onClose := closings()
		s := serve(t, &handler{
			traffic: func(c gnet.Conn) gnet.Action { return gnet.Close },
			close:   onClose,
		}, idle.Policy{IdleTimeout: time.Minute}, nil, tcp())
		dial(t, s.address).Write([]byte("x"))
		if c := receive(t, closed); c.err != nil {
			t.Error("OnClose got ", c.err)
		}
	})
	t.Run("close inside OnTraffic", func(t *testing.T) {
		closed, onClose := closings()
		s := serve(t, &handler{
			traffic: func(c gnet.Conn) gnet.Action {
				c.EventLoop().Close(c)
				return gnet.None
			},
			close: onClose,
		}, idle.Policy{IdleTimeout: time.Minute}, nil, tcp())
		dial(t, s.address).Write([]byte("x"))
		if c := receive(t, closed); c.err != nil {
			t.Error("OnClose got ", c.err)
		}
	})
	t.Run("shutdown in OnClose after a timeout", func(t *testing.T) {
		s := serve(t, &handler{
			close: func(c gnet.Conn, err error) gnet.Action { return gnet.Shutdown },
		}, idle.Policy{IdleTimeout: 20 * ms}, nil, tcp())
		dial(t, s.address)
		s.await(t)
	})
	t.Run("shutdown in OnTick", func(t *testing.T) {
		s := serve(t, &handler{
			tick: func() (time.Duration, gnet.Action) { return time.Hour, gnet.Shutdown },
		}, idle.Policy{IdleTimeout: time.Minute}, nil, tcp(), gnet.WithTicker(true))
		s.await(t)
	})
}
