package httpconn

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// TestHijackedStays: a connection that is hijacked stays with its tracker, without limits until Watch gives it some. The listener's
// tracker ends with the connection, or when that has timed out.
func TestHijackedStays(t *testing.T) {
	for _, closes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, c, w := accepted(t, unlimited())
			c.Hijack()
			watch(t, c, idle.Policy{IdleTimeout: time.Minute}, httplimits.Callbacks{})
			watch(t, c, idle.Policy{Name: "none"}, httplimits.Callbacks{})
			l.Close()
			time.Sleep(24 * time.Hour)
			watch(t, c, idle.Policy{IdleTimeout: time.Minute}, httplimits.Callbacks{})
			if st := l.Stats(); l.isOver() || st.Live != 1 || st.Tracked != 1 {
				t.Errorf("the trackers have ended: %v; %+v", l.isOver(), st)
			}
			if closes {
				c.Close()
				c.Close()
			} else {
				time.Sleep(2 * time.Minute)
			}
			synctest.Wait()
			if !l.isOver() || !w.isClosed() {
				t.Errorf("the trackers have ended: %v; its connection is closed: %v", l.isOver(), w.isClosed())
			}
		})
	}
}

// TestHijackedTakesAPlace: a Capacity counts a hijacked connection. It is evicted for a newcomer while
// it waits for input, unless NoInterrupt forbids that.
func TestHijackedTakesAPlace(t *testing.T) {
	for name, noInterrupt := range map[string]bool{"may be evicted": false, "may not": true} {
		synctest.Test(t, func(t *testing.T) {
			limits := unlimited()
			limits.Hijacked.NoInterrupt = noInterrupt
			l, c, w := accepted(t, limits)
			if err := l.Tracker().SetCapacity(idle.Capacity{MaxConns: 1}); err != nil {
				t.Fatal(err)
			}
			c.Hijack()
			go c.Read(make([]byte, 1))
			time.Sleep(time.Minute)
			newcomer := newWire()
			l.ln.(wires).next <- newcomer
			go func() {
				if nc, err := l.Accept(); err == nil {
					nc.Read(make([]byte, 1))
					nc.Close()
				}
			}()
			time.Sleep(time.Second)
			if w.isClosed() == noInterrupt || newcomer.isClosed() != noInterrupt {
				t.Errorf("%s: it is closed: %v; the newcomer: %v", name, w.isClosed(), newcomer.isClosed())
			}
			close(l.ln.(wires).next)
			l.Close()
			c.Close()
			newcomer.Close()
		})
	}
}

// TestWatchTooLate is refused, and counts nothing: the connection is closed, or has timed out.
func TestWatchTooLate(t *testing.T) {
	for _, closes := range []bool{true, false} {
		inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, _ *wire) {
			c.Hijack()
			short := idle.Policy{IdleTimeout: time.Minute}
			if closes {
				c.Close()
			} else {
				watch(t, c, short, httplimits.Callbacks{})
				c.Read(make([]byte, 1))
			}
			for _, p := range []idle.Policy{short, {}} {
				err := Watch("httpconn", c, p, httplimits.Callbacks{})
				isClosed := errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), "the connection is closed")
				if isClosed != closes || !closes && timeoutOf(err).Limit == 0 || l.Stats().Live != 0 {
					t.Errorf("%v, and %+v", err, l.Stats())
				}
			}
		})
	}
}

// TestWatchIsExact: the default tick is fine enough for the limits of Watch.
func TestWatchIsExact(t *testing.T) {
	const ms = time.Millisecond
	beat := idle.Policy{Heartbeat: idle.Heartbeat{Interval: 100 * ms, Timeout: 300 * ms, Misses: 2}}
	for _, test := range []struct {
		policy      idle.Policy
		tick        time.Duration // of the listener, that the user has set
		limit, most time.Duration
		refused     bool
	}{
		{policy: beat, limit: 700 * ms, most: 700*ms + 6*defaultTick},
		{policy: idle.Policy{IdleTimeout: 50 * ms}, limit: 50 * ms, most: 50*ms + 2*defaultTick},
		{policy: idle.Policy{IdleTimeout: 50 * ms}, tick: 100 * ms, refused: true},
		{policy: idle.Policy{IdleTimeout: time.Minute, MaxAge: time.Hour, MaxAgeGrace: 50 * ms}, limit: time.Minute, most: time.Minute + 2*defaultTick},
	} {
		limits := httplimits.Timeouts{Idle: idle.Options{Tick: test.tick}}
		inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, _ *wire) {
			c.Hijack()
			err := Watch("httpconn", c, test.policy, httplimits.Callbacks{Ping: func() error { return nil }})
			if test.refused {
				if err == nil || !strings.Contains(err.Error(), "shorter than the tick") {
					t.Errorf("%+v: %v", test.policy, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			begun, before := time.Now(), l.Stats()
			_, err = c.Read(make([]byte, 1))
			took, timeout := time.Since(begun), timeoutOf(err)
			if timeout.Phase != "hijacked" || took < test.limit || took > test.most {
				t.Errorf("%+v: after %v, want %v to %v: %v", test.policy, took, test.limit, test.most, err)
			}
			if st := l.Stats(); st.TimedOut[timeout.Reason] != 1 || st.Tracked != 1 || st.Closed != 0 || st.Phases["hijacked"] != 1 {
				t.Errorf("%+v: %+v", test.policy, st)
			}
			if n := before.Phases["hijacked"]; n != 0 {
				t.Errorf("counts that somebody has got have become %d", n)
			}
		})
	}
}

// TestFarewellHasASecond has an OnEnd that takes some time before it writes. Its client gets all that
// there is room for.
func TestFarewellHasASecond(t *testing.T) {
	const room = 4 << 10
	for name, test := range map[string]struct {
		kernel simnet.Kernel
		pause  time.Duration
	}{
		"the kernel tells when a write waits": {simnet.Whole, 300 * time.Millisecond},
		"nothing tells":                       {simnet.Silent, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			network := simnet.Listen(simnet.Config{Buffer: room, Kernel: test.kernel})
			l, err := NewListener("httpconn", network, unlimited(), OverTLS)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				client, err := network.Dial()
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Minute)
				if b, err := io.ReadAll(client); len(b) != room {
					t.Errorf("%s: the client got %d bytes, %v", name, len(b), err)
				}
				client.Close()
			}()
			nc, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c := nc.(*Conn)
			c.Accepted(c)
			c.Hijack()
			watch(t, c, idle.Policy{IdleTimeout: time.Second}, httplimits.Callbacks{OnEnd: func(*idle.TimeoutError) {
				begun := time.Now()
				time.Sleep(test.pause)
				for _, size := range []int{10, room} {
					n, err := c.Write(make([]byte, size))
					if took := time.Since(begun); size == room && (n != room-10 || err == nil || took != time.Second) || size < room && err != nil {
						t.Errorf("%s: wrote %d bytes of %d in %v: %v", name, n, size, took, err)
					}
				}
			}})
			c.Read(make([]byte, 1))
			c.Close()
			l.Close()
			time.Sleep(2 * time.Minute)
		})
	}
}

// inShutdown runs a test of a hijacked connection with an IdleTimeout, which reads, in virtual time. shut shuts its server down.
func inShutdown(t *testing.T, idleTimeout time.Duration, shut func(context.Context) error, test func(t *testing.T, l *Listener, c *Conn, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, c, w := accepted(t, unlimited())
		SetServer(l, l, shut, nil)
		c.Hijack()
		watch(t, c, idle.Policy{IdleTimeout: idleTimeout}, httplimits.Callbacks{})
		go func() {
			c.Read(make([]byte, 1)) // or it's busy
			c.Close()
		}()
		test(t, l, c, w)
		c.Close()
		l.Close()
	})
}

// TestWatchDuringAShutdown gives a hijacked connection limits during a Shutdown of two listeners of a server. The
// Shutdown waits for it, but it isn't closed while its OnEnd is running.
func TestWatchDuringAShutdown(t *testing.T) {
	for name, limit := range map[string]time.Duration{"live": time.Hour, "ending": 4900 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			shuts := 0
			shut := func(context.Context) error { shuts++; return nil }
			inShutdown(t, time.Hour, shut, func(t *testing.T, late *Listener, _ *Conn, _ *wire) {
				early, c, w := accepted(t, unlimited())
				SetServer(early, late, shut, nil) // the same server
				c.Hijack()
				farewell := httplimits.Callbacks{OnEnd: func(*idle.TimeoutError) {
					time.Sleep(time.Second / 2)
					if w.isClosed() {
						t.Error("the connection is closed while OnEnd is running")
					}
				}}
				time.AfterFunc(5*time.Second, func() {
					watch(t, c, idle.Policy{IdleTimeout: limit}, farewell)
					c.Read(make([]byte, 1))
					c.Close()
				})
				begun := time.Now()
				if err := Shutdown(t.Context(), "httpconn", idle.Drain{CloseDelay: 10 * time.Second}, []*outer{{early}, {late}}); err != nil {
					t.Error(err)
				}
				if open := early.Stats().Live; open != 0 || time.Since(begun) < 10*time.Second || shuts != 1 {
					t.Errorf("%d are open after a Shutdown of %v; the server was shut down %d times", open, time.Since(begun), shuts)
				}
				time.Sleep(time.Second)
				if !w.isClosed() {
					t.Error("the connection is open")
				}
				early.Close()
			})
		})
	}
}

// TestShutdownTakesOver shuts down while a drain that somebody has begun by hand would take another
// hour. The shutdown is at its own pace. A second Shutdown beside it is refused.
func TestShutdownTakesOver(t *testing.T) {
	shut := func(context.Context) error { return nil }
	inShutdown(t, 2*time.Hour, shut, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		byHand, err := l.tracker.Drain(idle.Drain{CloseDelay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		begun, all := time.Now(), []*outer{{l}}
		time.AfterFunc(time.Second, func() {
			if err := Shutdown(t.Context(), "httpconn", idle.Drain{}, all); err == nil {
				t.Error("a second Shutdown: no error")
			}
		})
		if err := Shutdown(t.Context(), "httpconn", idle.Drain{CloseDelay: 10 * time.Second}, all); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took < 10*time.Second || took > 20*time.Second || l.Stats().Live != 0 {
			t.Errorf("it took %v, and %d are open", took, l.Stats().Live)
		}
		<-byHand.Done()
	})
}

// TestShutdownIsTakenOver has somebody begin another drain during a Shutdown. That waits for it. If it is
// given up meanwhile, the other drain goes on.
func TestShutdownIsTakenOver(t *testing.T) {
	for name, givesUp := range map[string]bool{"waits": false, "is given up": true} {
		t.Run(name, func(t *testing.T) {
			inShutdown(t, 2*time.Hour, func(ctx context.Context) error { return ctx.Err() }, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				time.AfterFunc(time.Second, func() {
					if _, err := l.tracker.Drain(idle.Drain{CloseDelay: time.Minute}); err != nil {
						t.Error(err)
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if givesUp {
					time.AfterFunc(2*time.Second, cancel)
				}
				begun := time.Now()
				if err := Shutdown(ctx, "httpconn", idle.Drain{CloseDelay: 10 * time.Second}, []*outer{{l}}); err != nil != givesUp {
					t.Error(err)
				}
				if took := time.Since(begun); took > 2*time.Minute || took < time.Minute != givesUp {
					t.Errorf("it took %v", took)
				}
				if goesOn := l.tracker.Draining() != nil; goesOn != givesUp {
					t.Errorf("the other drain goes on: %v", goesOn)
				}
				time.Sleep(2 * time.Minute)
				if n := l.Stats().Drained; n != 1 {
					t.Errorf("%d were drained", n)
				}
			})
		})
	}
}

// TestShutdownThatFails has a Shutdown fail twice, and Watch called again. Somebody cancels the drain of a
// later Shutdown, so the connection stays open.
func TestShutdownThatFails(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		d    idle.Drain
		says string
	}{
		"invalid":   {context.Background(), idle.Drain{Duration: -1}, "httpconn: Shutdown: "},
		"cancelled": {cancelled, idle.Drain{}, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			inShutdown(t, time.Hour, func(ctx context.Context) error { return ctx.Err() }, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				all := []*outer{{l}}
				for range 2 {
					wantPrefix(t, Shutdown(test.ctx, "httpconn", test.d, all), test.says)
				}
				watch(t, c, idle.Policy{IdleTimeout: 2 * time.Hour}, httplimits.Callbacks{})
				time.AfterFunc(time.Second, func() { l.tracker.Draining().Cancel() })
				if err := Shutdown(t.Context(), "httpconn", idle.Drain{CloseDelay: time.Minute}, all); err != nil {
					t.Error(err)
				}
				if w.isClosed() {
					t.Error("the connection is closed")
				}
			})
		})
	}
	none := []*outer{}
	wantPrefix(t, Shutdown(cancelled, "httpconn", idle.Drain{}, none), "httpconn: Shutdown of no listener")
	wantPrefix(t, LameDuck(cancelled, "httpconn", time.Second, none), "httpconn: LameDuck of no listener")
	wantPrefix(t, Shutdown(cancelled, "httpconn", idle.Drain{}, []*outer{nil}), "httpconn: Shutdown: a listener is nil")
}

// outer is an adapter's listener.
type outer struct{ *Listener }

// TestWatchWithPingsAndIdleTimeout: pings count as use, so an IdleTimeout longer than the interval needs ExplicitUse and Use.
func TestWatchWithPingsAndIdleTimeout(t *testing.T) {
	inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		c.Hijack()
		p := idle.Policy{IdleTimeout: 3 * time.Second, Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}}
		err := Watch("httpconn", c, p, httplimits.Callbacks{Ping: func() error { return nil }})
		wantPrefix(t, err, "httpconn: Watch: IdleTimeout is 3s, but connections are pinged every 1s")
	})
}

// watch is Watch of a hijacked connection.
func watch(t *testing.T, c *Conn, p idle.Policy, on httplimits.Callbacks) {
	t.Helper()
	if err := Watch("httpconn", c, p, on); err != nil {
		t.Error(err)
	}
}
