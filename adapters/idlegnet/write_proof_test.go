//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

const flood = 16 << 20 // bytes, more than the socket buffers of server and client take

// small keeps the kernel's buffers small, so that little is hidden in them.
var small = []gnet.Option{gnet.WithSocketSendBuffer(16 << 10), gnet.WithNumEventLoop(1)}

// TestStoppedReader has all kinds of writes to a client that does not read, on
// TCP and Unix sockets, while the client keeps sending.
func TestStoppedReader(t *testing.T) {
	t.Parallel()
	const limit = 200 * ms
	big := make([]byte, flood)
	ways := map[string]func(*handler, chan time.Time){
		"in OnOpen": func(h *handler, begun chan time.Time) {
			h.open = func(c gnet.Conn) ([]byte, gnet.Action) { begun <- time.Now(); return big, gnet.None }
		},
		"in OnTraffic": func(h *handler, begun chan time.Time) {
			once := false
			h.traffic = func(c gnet.Conn) gnet.Action {
				c.Discard(-1)
				if !once {
					once = true
					begun <- time.Now()
					c.Write(big)
				}
				return gnet.None
			}
		},
		"AsyncWrite": func(h *handler, begun chan time.Time) {
			h.open = func(c gnet.Conn) ([]byte, gnet.Action) {
				go func() {
					time.Sleep(limit * 5 / 2) // so that limits were looked at before
					begun <- time.Now()
					c.AsyncWrite(big, nil)
				}()
				return nil, gnet.None
			}
			h.traffic = func(c gnet.Conn) gnet.Action { c.Discard(-1); return gnet.None }
		},
		"many small AsyncWrites": func(h *handler, begun chan time.Time) {
			h.open = func(c gnet.Conn) ([]byte, gnet.Action) {
				go func() {
					begun <- time.Now()
					var err atomic.Pointer[error]
					for err.Load() == nil {
						c.AsyncWrite(big[:64<<10], func(_ gnet.Conn, e error) error {
							if e != nil {
								err.Store(&e)
							}
							return nil
						})
						time.Sleep(ms)
					}
				}()
				return nil, gnet.None
			}
			h.traffic = func(c gnet.Conn) gnet.Action { c.Discard(-1); return gnet.None }
		},
	}
	for name, way := range ways {
		for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
			t.Run(name+" "+address[:4], func(t *testing.T) {
				closed, onClose := closings()
				h := &handler{close: onClose}
				begun := make(chan time.Time, 1)
				way(h, begun)
				s := serve(t, h, idle.Policy{WriteTimeout: limit, IdleTimeout: time.Minute}, nil, []string{address}, small...)
				nc := dial(t, s.address)
				go func() {
					for err := error(nil); err == nil && name != "AsyncWrite"; time.Sleep(5 * ms) {
						_, err = nc.Write([]byte{'x'})
					}
				}()
				since := receive(t, begun)
				got := receive(t, closed)
				expectTimeout(t, got, idle.ReasonWrite, since, limit)
				t.Logf("closed %v after the write", got.at.Sub(since))
			})
		}
	}
}

// TestPeerThatTakesNothing is given the limit once, whichever it is. What the kernel
// takes at the beginning, of which nobody is told, is no sign of life later on.
func TestPeerThatTakesNothing(t *testing.T) {
	t.Parallel()
	if !kernel.SeesOutput {
		t.Skip("the kernel does not tell")
	}
	const limit = 1500 * ms // much longer than what the kernel needs to find out that nothing moves
	for name, c := range map[string]struct {
		network string
		policy  idle.Policy
		reason  idle.Reason
	}{
		"idle unix":             {"unix://", idle.Policy{IdleTimeout: limit}, idle.ReasonIdle},
		"idle before write":     {"unix://", idle.Policy{IdleTimeout: limit, WriteTimeout: 2 * limit}, idle.ReasonIdle},
		"idle soon after write": {"unix://", idle.Policy{IdleTimeout: limit, WriteTimeout: 4 * limit / 5}, idle.ReasonIdle},
		"write tcp":             {"tcp://127.0.0.1:0", idle.Policy{WriteTimeout: limit}, idle.ReasonWrite},
	} {
		t.Run(name, func(t *testing.T) {
			inTime := intime.Of(t, limit/4)
			closed, onClose := closings()
			begun := make(chan time.Time, 1)
			s := serve(t, &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) {
				begun <- time.Now()
				c.Write(make([]byte, flood))
				return nil, gnet.None
			}}, c.policy, nil, []string{c.network}, small...)
			nc := dial(t, s.address)
			since := receive(t, begun)
			got := receive(t, closed)
			expectTimeout(t, got, c.reason, since, limit)
			// On a busy machine the kernel may still move bytes to the peer much later.
			if arrived := time.Now().Add(-kernel.InspectConn(nc).In); arrived.Before(got.at) && arrived.After(since) {
				t.Logf("the last bytes arrived after %v", arrived.Sub(since))
				since = arrived
			}
			if took := got.at.Sub(since); took > 2*limit { // if it is given twice, it takes longer
				inTime.Errorf("closed after %v", took)
			}
		})
	}
}

// TestSlowReader drains a flood steadily for several times the limit, and then
// stops.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const limit = 300 * ms
	big := make([]byte, flood)
	for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
		for _, how := range []string{"write", "async", "trickle"} {
			t.Run(how+" "+address[:4], func(t *testing.T) {
				if how == "trickle" && !kernel.SeesOutput {
					t.Skip("the kernel does not tell how much of it has left")
				}
				closed, onClose := closings()
				stop := make(chan struct{})
				defer close(stop)
				h := &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) {
					switch how {
					case "write":
						c.Write(big)
					case "async":
						c.AsyncWrite(big, nil)
					case "trickle": // so that what is held back does not shrink
						c.Write(big[:flood/2])
						go pushUntil(stop, c, big[:64<<10], 4*ms)
					}
					return nil, gnet.None
				}}
				s := serve(t, h, idle.Policy{WriteTimeout: limit, IdleTimeout: time.Minute}, nil, []string{address}, small...)
				nc := dial(t, s.address)
				var last time.Time
				inTime := intime.Of(t, limit/4)
				for begun := time.Now(); time.Since(begun) < 3*limit; time.Sleep(5 * ms) {
					last = time.Now()
					if _, err := io.ReadFull(nc, make([]byte, 64<<10)); err != nil {
						inTime.Fatal("cut off: ", err)
					}
				}
				if len(closed) > 0 {
					inTime.Fatal("cut off: ", receive(t, closed).err)
				}
				expectTimeout(t, receive(t, closed), idle.ReasonWrite, last, limit)
			})
		}
	}
}

func pushUntil(stop chan struct{}, c gnet.Conn, b []byte, every time.Duration) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(every):
			c.AsyncWrite(b, nil)
		}
	}
}

// TestBacklogHasItsGrace, however long nothing has waited before it.
func TestBacklogHasItsGrace(t *testing.T) {
	t.Parallel()
	const grace = 500 * ms
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		c.Discard(-1)
		c.Write(make([]byte, flood))
		return gnet.None
	}}, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 1 << 20, Grace: grace}}, nil, []string{"unix://"}, small...)
	nc := dial(t, s.address)
	time.Sleep(grace + 4*grace/5)
	since := time.Now()
	nc.Write([]byte{'x'})
	expectTimeout(t, receive(t, closed), idle.ReasonMinWriteRate, since, grace)
}

// TestPingThatIsHeldBack by gnet is no sign that the peer takes anything.
func TestPingThatIsHeldBack(t *testing.T) {
	t.Parallel()
	const interval, limit = 100 * ms, 500 * ms
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose, open: func(gnet.Conn) ([]byte, gnet.Action) {
		return make([]byte, flood), gnet.None
	}}, idle.Policy{
		WriteTimeout: limit, Heartbeat: idle.Heartbeat{Interval: interval, Timeout: interval, Misses: 30},
	}, &Options{Ping: func(c gnet.Conn) error { _, err := c.Write([]byte{'?'}); return err }}, tcp(), small...)
	since := time.Now()
	dial(t, s.address)
	expectTimeout(t, receive(t, closed), idle.ReasonWrite, since, limit)
}

// TestWhoTakesNothingIsReset, or the kernel would keep for minutes what waits to
// be taken.
func TestWhoTakesNothingIsReset(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) {
		return make([]byte, flood), gnet.None
	}}, idle.Policy{WriteTimeout: 100 * ms}, nil, tcp(), small...)
	nc := dial(t, s.address)
	receive(t, closed)
	if _, err := io.Copy(io.Discard, nc); err == nil || runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client gets %v", err)
	}
}

// TestNothingWaits has a client that reads everything at once and then nothing,
// because there is nothing: that is not held against it.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	const limit = 100 * ms
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		c.Discard(-1)
		c.Write(make([]byte, 1<<20))
		return gnet.None
	}}, idle.Policy{WriteTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}}, nil, tcp(), small...)
	inTime := intime.Of(t, limit/4)
	nc := dial(t, s.address)
	for range 4 {
		nc.Write([]byte{'x'})
		if _, err := io.ReadFull(nc, make([]byte, 1<<20)); err != nil {
			inTime.Fatal(err)
		}
		time.Sleep(3 * limit)
	}
	if len(closed) > 0 {
		inTime.Error("closed: ", receive(t, closed).err)
	}
}

// TestPushIsActivity sends to a client that only reads: it is not idle.
func TestPushIsActivity(t *testing.T) {
	t.Parallel()
	const limit = 400 * ms
	for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
		t.Run(address[:4], func(t *testing.T) {
			closed, onClose := closings()
			stop := make(chan struct{})
			var h *Handler
			var pushed atomic.Value // when the last push was begun
			inTime := intime.Of(t, limit/4)
			user := &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) {
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(limit / 20):
							pushed.Store(time.Now())
							c.AsyncWrite([]byte{'x'}, func(c gnet.Conn, err error) error {
								if address == "unix://" {
									h.Conn(c).Sent(1)
								}
								return nil
							})
						}
					}
				}()
				return nil, gnet.None
			}}
			h = wrap(t, user, idle.Policy{IdleTimeout: limit}, nil)
			s := start(t, user, h, []string{address}, nil)
			go io.Copy(io.Discard, dial(t, s.address))
			time.Sleep(4 * limit)
			close(stop)
			if len(closed) > 0 {
				inTime.Error("closed: ", receive(t, closed).err)
				return
			}
			got := receive(t, closed)
			expectTimeout(t, got, idle.ReasonIdle, pushed.Load().(time.Time), limit)
		})
	}
}

// TestMinWriteRate has one client that drains fast enough and one that does
// not, though it never stops.
func TestMinWriteRate(t *testing.T) {
	t.Parallel()
	const rate, grace = 4 << 20, 300 * ms
	policy := idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: rate, Grace: grace}}
	drain := func(nc net.Conn, bytesPerSecond int, until func(drained int) bool) {
		const chunk = 64 << 10
		for begun, n := time.Now(), 0; !until(n); {
			if n < int(time.Since(begun).Seconds()*float64(bytesPerSecond)) {
				m, err := io.ReadFull(nc, make([]byte, chunk))
				if n += m; err != nil {
					return
				}
				continue
			}
			time.Sleep(ms)
		}
	}
	for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
		t.Run(address[:4], func(t *testing.T) {
			closed, onClose := closings()
			s := serve(t, &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) {
				c.AsyncWrite(make([]byte, 2*flood), nil)
				return nil, gnet.None
			}}, policy, nil, []string{address}, gnet.WithSocketSendBuffer(256<<10))
			inTime := intime.Of(t, grace/4)
			begun := time.Now()
			drain(dial(t, s.address), 3*rate, func(n int) bool { return time.Since(begun) > 4*grace || n > flood })
			if len(closed) > 0 {
				inTime.Fatal("the fast one was closed: ", receive(t, closed).err)
			}
			receive(t, closed) // now that it has stopped
			begun = time.Now()
			drain(dial(t, s.address), rate/8, func(int) bool { return len(closed) > 0 || time.Since(begun) > patience })
			expectTimeout(t, receive(t, closed), idle.ReasonMinWriteRate, begun, grace)
		})
	}
}

// TestSteadyReaderOfUnixSocket reads at twice the rate. The kernel takes nothing until it has read most of
// the queue.
func TestSteadyReaderOfUnixSocket(t *testing.T) {
	t.Parallel()
	if !kernel.SeesOutput {
		t.Skip("the kernel does not tell")
	}
	const rate, size = 16 << 10, 400 << 10
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose, open: func(gnet.Conn) ([]byte, gnet.Action) { return make([]byte, size), gnet.None }},
		idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: rate, Grace: time.Second}}, nil, []string{"unix://"})
	nc := dial(t, s.address)
	begun := time.Now()
	for read := 0; read < size; {
		n, err := io.ReadFull(nc, make([]byte, 4<<10))
		read += n
		if err != nil && read < size {
			t.Fatalf("%d bytes read in %v: %v, %v", read, time.Since(begun), err, receive(t, closed).err)
		}
		time.Sleep(time.Until(begun.Add(time.Duration(read) * time.Second / (2 * rate))))
	}
}

// TestBytesTakenBeforeBuyNoTime: what the client has taken before a write waits does
// not count for the rate, whether gnet held some of it back or not.
func TestBytesTakenBeforeBuyNoTime(t *testing.T) {
	t.Parallel()
	if !kernel.SeesOutput {
		t.Skip("the kernel does not tell")
	}
	const grace = 500 * ms
	for name, part := range map[string]int{"without a wait": 4 << 10, "after a wait": flood} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed, onClose := closings()
			s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
				b, _ := c.Next(-1)
				c.Write(make([]byte, len(b)*part))
				return gnet.None
			}}, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 32 << 10, Grace: grace}}, nil, tcp(), small...)
			nc := dial(t, s.address)
			inTime := intime.Of(t, grace/2)
			for range max(1, 2<<20/part) { // a minute's worth
				nc.Write([]byte{'x'})
				if _, err := io.ReadFull(nc, make([]byte, part)); err != nil {
					inTime.Fatal(err)
				}
			}
			since := time.Now()
			nc.Write(make([]byte, max(1, flood/part)))
			expectTimeout(t, receive(t, closed), idle.ReasonMinWriteRate, since, grace)
		})
	}
}
