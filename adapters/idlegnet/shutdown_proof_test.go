//go:build proof

package idlegnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// TestShutdownOrders ends engines in every way, while connections come, talk,
// and time out, which goes on while OnShutdown waits. No goroutine is left.
func TestShutdownOrders(t *testing.T) {
	for _, how := range []string{"Stop", "OnTraffic", "OnOpen", "OnClose", "OnTick", "OnShutdown waits"} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprint(how, " reuse ", reuse), func(t *testing.T) {
				t.Cleanup(func() { noneLeft(t) })
				var opens, closes atomic.Int64
				var done atomic.Bool
				when := func(name string) gnet.Action {
					if how == name && done.Load() {
						return gnet.Shutdown
					}
					return gnet.None
				}
				s := serve(t, &handler{
					greeting: []byte("hello"),
					open:     func(gnet.Conn) gnet.Action { opens.Add(1); return when("OnOpen") },
					traffic: func(c gnet.Conn) gnet.Action {
						b, _ := c.Next(-1)
						c.Write(b)
						return when("OnTraffic")
					},
					close: func(gnet.Conn, error) gnet.Action { closes.Add(1); return when("OnClose") },
					tick:  func() (time.Duration, gnet.Action) { return 10 * ms, when("OnTick") },
					shutdown: func() {
						if how == "OnShutdown waits" {
							for before := closes.Load(); closes.Load() < before+20 && !t.Failed(); {
								time.Sleep(ms)
							}
						}
					},
				}, idle.Policy{IdleTimeout: 20 * ms, MaxAge: 100 * ms}, &Options{Idle: idle.Options{Tick: ms}},
					gnet.WithNumEventLoop(3), gnet.WithReusePort(reuse), gnet.WithTicker(true))
				for i := range 8 {
					go func() {
						for {
							nc, err := net.Dial("tcp", s.address[len("tcp://"):])
							if err != nil {
								select {
								case <-s.ended:
									return
								case <-time.After(ms):
									continue
								}
							}
							nc.SetDeadline(time.Now().Add(patience))
							for range i {
								if echo(nc, "hello") != nil {
									break
								}
							}
							if i%2 == 0 {
								io.Copy(io.Discard, nc) // until it times out
							} else {
								time.Sleep(ms) // or connecting takes all that the loops need
							}
							nc.Close()
						}
					}()
				}
				await(t, func() bool { return s.Stats().TimedOut[idle.ReasonIdle] >= 10 })
				done.Store(true)
				if how == "Stop" || how == "OnShutdown waits" {
					s.stop(t)
				}
				s.await(t)
				if opens.Load() != closes.Load() {
					t.Errorf("%d were opened and %d closed", opens.Load(), closes.Load())
				}
				if st := s.Stats(); st.Live != 0 || st.Panics != 0 {
					t.Errorf("at the end: %+v", st)
				}
			})
		}
	}
}

// TestBootFails: whichever handler's OnBoot fails, nothing is left, and the
// user's callbacks are as they were.
func TestBootFails(t *testing.T) {
	s := serve(t, &handler{
		boot:     func(gnet.Engine) gnet.Action { return gnet.Shutdown },
		shutdown: func() { t.Error("OnShutdown was called") },
	}, idle.Policy{IdleTimeout: time.Minute}, nil)
	s.await(t)
	noneLeft(t)
}

// TestRunFails: gnet fails before OnBoot, and between it and the start. Then
// the handler serves the next engine.
func TestRunFails(t *testing.T) {
	h := &handler{}
	h.wrapped = wrap(t, h, idle.Policy{IdleTimeout: time.Minute}, nil)
	if err := gnet.Run(h.wrapped, "tcp://"+listen(t, "tcp", "127.0.0.1:0").Addr().String(), gnet.WithLogger(silent{})); err == nil {
		t.Error("gnet listens twice")
	}
	noneLeft(t)
	h.wrapped.OnBoot(gnet.Engine{}) // as if it had failed then
	last := h.wrapped.Tracker()
	for range 2 {
		h.at, h.boot = nil, nil // they were the last engine's
		s := start(t, h, h.wrapped, nil)
		exchange(t, dial(t, s.address), "hello")
		if h.wrapped.OnBoot(gnet.Engine{}) != gnet.Shutdown {
			t.Error("it serves two engines at once")
		}
		s.stop(t)
		noneLeft(t)
		if st := s.Stats(); st.Tracked != 1 || st.Closed != 1 {
			t.Errorf("the second time it counts %+v", st)
		}
		if s.Tracker() == last {
			t.Error("the second run has the tracker of the first")
		}
		last = s.Tracker()
	}
}

// TestShutdown has clients that come back as soon as they are cut. Each is ended once, and
// none is served again. It takes the place of a drain that was begun by hand.
func TestShutdown(t *testing.T) {
	const clients, over = 20, 300 * ms
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil, gnet.WithNumEventLoop(2))
	for range clients {
		nc := dial(t, s.address)
		exchange(t, nc, "x")
		go func() {
			for echo(nc, "x") == nil {
				time.Sleep(10 * ms)
			}
			for again, err := net.Dial("tcp", s.address[len("tcp://"):]); err == nil; again, err = net.Dial("tcp", s.address[len("tcp://"):]) {
				again.SetDeadline(time.Now().Add(patience))
				if echo(again, "x") == nil {
					t.Error("served during Shutdown")
				}
				again.Close()
				time.Sleep(ms)
			}
		}()
	}
	byHand, err := s.Tracker().Drain(idle.Drain{Duration: time.Hour, CloseDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context(), idle.Drain{Duration: -1}); err == nil || !strings.Contains(err.Error(), "Drain.Duration") {
		t.Errorf("a negative time: %v", err)
	}
	select {
	case <-byHand.Done():
		t.Error("a Shutdown that failed has cancelled the drain by hand")
	default:
	}
	begun := time.Now()
	if err := s.Shutdown(t.Context(), idle.Drain{Duration: over, ForceAfter: patience}); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < over/2 || took >= patience {
		t.Errorf("ended within %v, not over %v, or by force: clients that talk all the time aren't busy all the time", took, over)
	}
	s.await(t)
	if st := s.Stats(); len(s.opened) != clients || st.Drained != clients || st.Live != 0 {
		t.Errorf("%d were opened: %+v", len(s.opened), st)
	}
	if err := s.Shutdown(t.Context(), idle.Drain{}); err != errLeaving {
		t.Errorf("again: %v", err)
	}
}

// TestShutdownWaitsForBytesOnTheirWay: a client that reads slowly, and sends something now and
// then, gets all that the kernel has accepted.
func TestShutdownWaitsForBytesOnTheirWay(t *testing.T) {
	t.Parallel()
	if !kernel.SeesOutput {
		t.Skip("the kernel does not tell")
	}
	const size, part = 1 << 20, 32 << 10
	s := serve(t, &handler{greeting: make([]byte, size)}, idle.Policy{WriteTimeout: time.Minute}, nil)
	nc := dial(t, s.address)
	if err := nc.(*net.TCPConn).SetReadBuffer(part); err != nil {
		t.Fatal(err)
	}
	receive(t, s.opened)
	go s.Shutdown(context.Background(), idle.Drain{ForceAfter: patience})
	for range size / part {
		time.Sleep(10 * ms)
		read(t, nc, part)
		nc.Write([]byte("ok"))
	}
}

// TestShutdownGivesUp: when ctx is done, connections that are still busy are closed. A client's
// engine goes on. Its drain doesn't, and another Shutdown ends the connection.
func TestShutdownGivesUp(t *testing.T) {
	busy := idle.Policy{IdleTimeout: time.Hour, NoInterrupt: true}
	s := serve(t, &handler{}, busy, nil)
	exchange(t, dial(t, s.address), "x")
	cli, c := client(t, &handler{}, busy)
	if _, err := cli.Dial("tcp", listen(t, "tcp", "127.0.0.1:0").Addr().String()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
	defer cancel()
	for _, h := range []*Handler{s.Handler, c.Handler} {
		if err := h.Shutdown(ctx, idle.Drain{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	receive(t, s.closed)
	s.await(t)
	if c.Tracker().Draining() != nil || len(c.closed) > 0 {
		t.Error("the client's drain goes on")
	}
	if err := c.Shutdown(t.Context(), idle.Drain{ForceAfter: ms}); err != nil {
		t.Error(err)
	}
	receive(t, c.closed)
}
