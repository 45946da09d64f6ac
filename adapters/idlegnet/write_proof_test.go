//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"net"
	"runtime"
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

// onRequest returns an OnTraffic that writes n bytes for each that has come.
func onRequest(n int) func(gnet.Conn) gnet.Action {
	return func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		c.Write(make([]byte, n*len(b)))
		return gnet.None
	}
}

// push writes b again and again, until the test is over.
func push(t *testing.T, c gnet.Conn, b []byte, every time.Duration) {
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-time.After(every):
				c.AsyncWrite(b, nil)
			}
		}
	}()
}

// TestStoppedReader has all kinds of writes to a client that does not read, on
// TCP and Unix sockets, while the client keeps sending.
func TestStoppedReader(t *testing.T) {
	t.Parallel()
	const limit = 200 * ms
	big := make([]byte, flood)
	for name, prepare := range map[string]func(t *testing.T, h *handler, begun func()){
		"in OnOpen": func(_ *testing.T, h *handler, begun func()) {
			h.greeting = big
			h.open = func(gnet.Conn) gnet.Action { begun(); return gnet.None }
		},
		"in OnTraffic": func(_ *testing.T, h *handler, begun func()) {
			once := false
			h.traffic = func(c gnet.Conn) gnet.Action {
				if !once {
					once = true
					begun()
					c.Write(big)
				}
				return discard(c)
			}
		},
		"AsyncWrite": func(_ *testing.T, h *handler, begun func()) {
			h.open = func(c gnet.Conn) gnet.Action {
				time.AfterFunc(limit*5/2, func() { // so that limits were looked at before
					begun()
					c.AsyncWrite(big, nil)
				})
				return gnet.None
			}
		},
		"many small AsyncWrites": func(t *testing.T, h *handler, begun func()) {
			h.open = func(c gnet.Conn) gnet.Action {
				begun()
				push(t, c, big[:64<<10], ms)
				return gnet.None
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at []string) {
				begun := make(chan time.Time, 1)
				h := &handler{at: at, traffic: discard}
				prepare(t, h, func() { begun <- time.Now() })
				s := serve(t, h, idle.Policy{WriteTimeout: limit, IdleTimeout: time.Minute}, nil, small...)
				nc := dial(t, s.address)
				go func() {
					for err := error(nil); err == nil && name != "AsyncWrite"; time.Sleep(5 * ms) {
						_, err = nc.Write([]byte{'x'})
					}
				}()
				s.wantTimeout(t, idle.ReasonWrite, receive(t, begun), limit)
			})
		})
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
		at     string
		policy idle.Policy
		reason idle.Reason
	}{
		"idle unix":             {"unix://", idle.Policy{IdleTimeout: limit}, idle.ReasonIdle},
		"idle before write":     {"unix://", idle.Policy{IdleTimeout: limit, WriteTimeout: 2 * limit}, idle.ReasonIdle},
		"idle soon after write": {"unix://", idle.Policy{IdleTimeout: limit, WriteTimeout: 4 * limit / 5}, idle.ReasonIdle},
		"write tcp":             {"tcp://127.0.0.1:0", idle.Policy{WriteTimeout: limit}, idle.ReasonWrite},
	} {
		t.Run(name, func(t *testing.T) {
			inTime := intime.Of(t, limit/4)
			begun := make(chan time.Time, 1)
			s := serve(t, &handler{at: []string{c.at}, open: func(c gnet.Conn) gnet.Action {
				begun <- time.Now()
				c.Write(make([]byte, flood))
				return gnet.None
			}}, c.policy, nil, small...)
			nc := dial(t, s.address)
			since := receive(t, begun)
			got := s.wantTimeout(t, c.reason, since, limit)
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
	for how, write := range map[string]func(t *testing.T, c gnet.Conn){
		"write": func(_ *testing.T, c gnet.Conn) { c.Write(big) },
		"async": func(_ *testing.T, c gnet.Conn) { c.AsyncWrite(big, nil) },
		"trickle": func(t *testing.T, c gnet.Conn) { // so that what is held back does not shrink
			c.Write(big[:flood/2])
			push(t, c, big[:64<<10], 4*ms)
		},
	} {
		t.Run(how, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at []string) {
				if how == "trickle" && !kernel.SeesOutput {
					t.Skip("the kernel does not tell how much of it has left")
				}
				s := serve(t, &handler{at: at, open: func(c gnet.Conn) gnet.Action { write(t, c); return gnet.None }},
					idle.Policy{WriteTimeout: limit, IdleTimeout: time.Minute}, nil, small...)
				nc := dial(t, s.address)
				var last time.Time
				inTime := intime.Of(t, limit/4)
				for begun := time.Now(); time.Since(begun) < 3*limit; time.Sleep(5 * ms) {
					last = time.Now()
					if _, err := io.ReadFull(nc, make([]byte, 64<<10)); err != nil {
						inTime.Fatal("cut off: ", err)
					}
				}
				s.wantOpen(inTime)
				s.wantTimeout(t, idle.ReasonWrite, last, limit)
			})
		})
	}
}

// TestPeerThatTakesNothingIsReset, or the kernel would keep for minutes what waits to be taken. A ping
// that gnet holds back is no sign that the peer takes anything.
func TestPeerThatTakesNothingIsReset(t *testing.T) {
	t.Parallel()
	const interval, limit = 100 * ms, 500 * ms
	s := serve(t, &handler{greeting: make([]byte, flood)}, idle.Policy{
		WriteTimeout: limit, Heartbeat: idle.Heartbeat{Interval: interval, Timeout: interval, Misses: 30},
	}, &Options{Ping: ping}, small...)
	since := time.Now()
	nc := dial(t, s.address)
	s.wantTimeout(t, idle.ReasonWrite, since, limit)
	if _, err := io.Copy(io.Discard, nc); err == nil || runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client gets %v", err)
	}
}

// TestNothingWaits has a client that reads everything at once and then nothing,
// because there is nothing: that is not held against it.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	const limit = 100 * ms
	s := serve(t, &handler{traffic: onRequest(1 << 20)},
		idle.Policy{WriteTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}}, nil, small...)
	inTime := intime.Of(t, limit/4)
	nc := dial(t, s.address)
	for range 4 {
		nc.Write([]byte{'x'})
		if _, err := io.ReadFull(nc, make([]byte, 1<<20)); err != nil {
			inTime.Fatal(err)
		}
		time.Sleep(3 * limit)
	}
	s.wantOpen(inTime)
}

// TestPushIsActivity sends to a client that only reads: it is not idle.
func TestPushIsActivity(t *testing.T) {
	t.Parallel()
	const limit = 400 * ms
	onBoth(t, func(t *testing.T, at []string) {
		unix := at[0] == "unix://"
		inTime := intime.Of(t, limit/4)
		s := serve(t, &handler{at: at}, idle.Policy{IdleTimeout: limit}, nil)
		go io.Copy(io.Discard, dial(t, s.address))
		c := receive(t, s.opened)
		var pushed time.Time
		for begun := time.Now(); time.Since(begun) < 4*limit; time.Sleep(limit / 20) {
			pushed = time.Now()
			c.AsyncWrite([]byte{'x'}, func(c gnet.Conn, _ error) error {
				if unix {
					s.Conn(c).Sent(1)
				}
				return nil
			})
		}
		s.wantOpen(inTime)
		s.wantTimeout(t, idle.ReasonIdle, pushed, limit)
	})
}

// TestMinWriteRate has one client that drains fast enough and one that does
// not, though it never stops.
func TestMinWriteRate(t *testing.T) {
	t.Parallel()
	const rate, grace = 4 << 20, 300 * ms
	drain := func(nc net.Conn, bytesPerSecond int, until func(drained int) bool) {
		for begun, n := time.Now(), 0; !until(n); {
			if n >= int(time.Since(begun).Seconds()*float64(bytesPerSecond)) {
				time.Sleep(ms)
				continue
			}
			m, err := io.ReadFull(nc, make([]byte, 64<<10))
			if n += m; err != nil {
				return
			}
		}
	}
	onBoth(t, func(t *testing.T, at []string) {
		s := serve(t, &handler{at: at, open: func(c gnet.Conn) gnet.Action {
			c.AsyncWrite(make([]byte, 2*flood), nil)
			return gnet.None
		}}, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: rate, Grace: grace}}, nil, gnet.WithSocketSendBuffer(256<<10))
		inTime := intime.Of(t, grace/4)
		begun := time.Now()
		drain(dial(t, s.address), 3*rate, func(n int) bool { return time.Since(begun) > 4*grace || n > flood })
		s.wantOpen(inTime)
		receive(t, s.closed) // now that it has stopped
		begun = time.Now()
		drain(dial(t, s.address), rate/8, func(int) bool { return len(s.closed) > 0 || time.Since(begun) > patience })
		s.wantTimeout(t, idle.ReasonMinWriteRate, begun, grace)
	})
}

// TestSteadyReaderOfUnixSocket reads at twice the rate. The kernel takes nothing until it has read most of
// the queue.
func TestSteadyReaderOfUnixSocket(t *testing.T) {
	t.Parallel()
	if !kernel.SeesOutput {
		t.Skip("the kernel does not tell")
	}
	const rate, size, part = 16 << 10, 400 << 10, 4 << 10
	s := serve(t, &handler{at: []string{"unix://"}, greeting: make([]byte, size)},
		idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: rate, Grace: time.Second}}, nil)
	nc := dial(t, s.address)
	begun := time.Now()
	for n := part; n <= size; n += part {
		if _, err := io.ReadFull(nc, make([]byte, part)); err != nil {
			t.Fatalf("%d bytes read in %v: %v, %v", n, time.Since(begun), err, receive(t, s.closed).err)
		}
		time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / (2 * rate))))
	}
}

// TestBacklogHasItsGrace, however long nothing has waited before it. What the client has taken before
// a write waits does not count for the rate, whether gnet held some of it back or not.
func TestBacklogHasItsGrace(t *testing.T) {
	t.Parallel()
	const grace = 500 * ms
	for name, test := range map[string]struct {
		at          string
		part, taken int // bytes of an answer, and how many the client has taken before; a minute's worth
		rate        int
	}{
		"after a pause":  {"unix://", flood, 0, 1 << 20},
		"without a wait": {"tcp://127.0.0.1:0", 4 << 10, 512, 32 << 10},
		"after a wait":   {"tcp://127.0.0.1:0", flood, 1, 32 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.taken > 0 && !kernel.SeesOutput {
				t.Skip("the kernel does not tell")
			}
			s := serve(t, &handler{at: []string{test.at}, traffic: onRequest(test.part)},
				idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: test.rate, Grace: grace}}, nil, small...)
			nc := dial(t, s.address)
			inTime := intime.Of(t, grace/2)
			for range test.taken {
				nc.Write([]byte{'x'})
				if _, err := io.ReadFull(nc, make([]byte, test.part)); err != nil {
					inTime.Fatal(err)
				}
			}
			if test.taken == 0 {
				time.Sleep(grace + 4*grace/5)
			}
			since := time.Now()
			nc.Write(make([]byte, flood/test.part))
			s.wantTimeout(t, idle.ReasonMinWriteRate, since, grace)
		})
	}
}
