package idlegnet

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

const flood = 16 << 20 // bytes, more than any socket buffer takes

// small keeps the kernel's buffers small, so that little is hidden in them.
var small = []gnet.Option{gnet.WithSocketSendBuffer(16 << 10), gnet.WithNumEventLoop(1)}

// TestStoppedReader has all kinds of writes to a client that does not read, on
// TCP and Unix sockets, while the client keeps sending.
func TestStoppedReader(t *testing.T) {
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

// TestSlowReader drains a flood steadily for several times the limit, and then
// stops.
func TestSlowReader(t *testing.T) {
	const limit = 300 * ms
	big := make([]byte, flood)
	for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
		for _, how := range []string{"write", "async", "trickle"} {
			t.Run(how+" "+address[:4], func(t *testing.T) {
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
						go pushUntil(stop, c, big[:256<<10], 4*ms)
					}
					return nil, gnet.None
				}}
				s := serve(t, h, idle.Policy{WriteTimeout: limit, IdleTimeout: time.Minute}, nil, []string{address}, small...)
				nc := dial(t, s.address)
				var last time.Time
				for begun := time.Now(); time.Since(begun) < 3*limit; time.Sleep(5 * ms) {
					if _, err := io.ReadFull(nc, make([]byte, 64<<10)); err != nil {
						t.Fatal("cut off: ", err)
					}
					last = time.Now()
				}
				if len(closed) > 0 {
					t.Fatal("cut off: ", receive(t, closed).err)
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

// TestNothingWaits has a client that reads everything at once and then nothing,
// because there is nothing: that is not held against it.
func TestNothingWaits(t *testing.T) {
	const limit = 100 * ms
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		c.Discard(-1)
		c.Write(make([]byte, 1<<20))
		return gnet.None
	}}, idle.Policy{WriteTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}}, nil, tcp(), small...)
	nc := dial(t, s.address)
	for range 4 {
		nc.Write([]byte{'x'})
		if _, err := io.ReadFull(nc, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * limit)
	}
	if len(closed) > 0 {
		t.Error("closed: ", receive(t, closed).err)
	}
}

// TestPushIsActivity sends to a client that only reads: it is not idle.
func TestPushIsActivity(t *testing.T) {
	const limit = 400 * ms
	for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
		t.Run(address[:4], func(t *testing.T) {
			closed, onClose := closings()
			stop := make(chan struct{})
			var h *Handler
			user := &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) {
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(limit / 20):
							c.AsyncWrite([]byte{'x'}, func(c gnet.Conn, err error) error {
								if address == "unix://" {
									h.Sent(c, 1)
								}
								return nil
							})
						}
					}
				}()
				return nil, gnet.None
			}}
			h = Wrap(user, idle.Policy{IdleTimeout: limit}, nil)
			s := start(t, user, h, []string{address}, nil)
			go io.Copy(io.Discard, dial(t, s.address))
			time.Sleep(4 * limit)
			if len(closed) > 0 {
				t.Error("closed: ", receive(t, closed).err)
			}
			begun := time.Now()
			close(stop)
			if got := receive(t, closed); got.at.Sub(begun) < limit/2 {
				t.Error("closed early")
			}
		})
	}
}

// TestMinWriteRate has one client that drains fast enough and one that does
// not, though it never stops.
func TestMinWriteRate(t *testing.T) {
	const rate, grace = 4 << 20, 300 * ms
	policy := idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: rate, Grace: grace}}
	drain := func(nc net.Conn, bytesPerSecond int, until func() bool) {
		const chunk = 64 << 10
		for begun, n := time.Now(), 0; !until(); {
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
				c.AsyncWrite(make([]byte, flood), nil)
				return nil, gnet.None
			}}, policy, nil, []string{address}, gnet.WithSocketSendBuffer(256<<10))
			begun := time.Now()
			drain(dial(t, s.address), 3*rate, func() bool { return time.Since(begun) > 4*grace })
			if len(closed) > 0 {
				t.Fatal("the fast one was closed: ", receive(t, closed).err)
			}
			receive(t, closed) // now that it has stopped
			begun = time.Now()
			drain(dial(t, s.address), rate/8, func() bool { return len(closed) > 0 || time.Since(begun) > patience })
			expectTimeout(t, receive(t, closed), idle.ReasonMinWriteRate, begun, grace)
		})
	}
}
