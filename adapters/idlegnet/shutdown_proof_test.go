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
// and time out. No goroutine is left.
func TestShutdownOrders(t *testing.T) {
	for _, how := range []string{"Stop", "OnTraffic", "OnOpen", "OnClose", "OnTick", "OnShutdown waits"} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprint(how, " reuse ", reuse), func(t *testing.T) {
				t.Cleanup(func() { noneLeft(t) })
				var opens, closes, late atomic.Int64
				var over atomic.Bool
				done := make(chan struct{})
				when := func(name string) gnet.Action {
					select {
					case <-done:
						if how == name {
							return gnet.Shutdown
						}
					default:
					}
					return gnet.None
				}
				h := &handler{
					open: func(c gnet.Conn) ([]byte, gnet.Action) { opens.Add(1); return []byte("hello"), when("OnOpen") },
					traffic: func(c gnet.Conn) gnet.Action {
						b, _ := c.Next(-1)
						c.Write(b)
						return when("OnTraffic")
					},
					close: func(c gnet.Conn, err error) gnet.Action {
						if closes.Add(1); over.Load() {
							late.Add(1)
						}
						return when("OnClose")
					},
					tick: func() (time.Duration, gnet.Action) { return 10 * ms, when("OnTick") },
					shutdown: func(gnet.Engine) {
						if how == "OnShutdown waits" { // timeouts go on
							for before := closes.Load(); closes.Load() < before+20 && !t.Failed(); {
								time.Sleep(ms)
							}
						}
						over.Store(true)
					},
				}
				s := serve(t, h, idle.Policy{IdleTimeout: 20 * ms, MaxAge: 100 * ms}, &Options{Idle: idle.Options{Tick: ms}},
					tcp(), gnet.WithNumEventLoop(3), gnet.WithReusePort(reuse), gnet.WithTicker(true))
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
				for s.Stats().TimedOut[idle.ReasonIdle] < 10 && !t.Failed() {
					time.Sleep(ms)
				}
				close(done)
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
				t.Logf("%d of %d closed after OnShutdown", late.Load(), closes.Load())
			})
		}
	}
}

// TestTimeoutsGoOnDuringOnShutdown, which may wait for them.
func TestTimeoutsGoOnDuringOnShutdown(t *testing.T) {
	const limit = 300 * ms
	closed, onClose := closings()
	opened := make(chan struct{})
	s := serve(t, &handler{
		open:  func(gnet.Conn) ([]byte, gnet.Action) { close(opened); return nil, gnet.None },
		close: onClose,
		shutdown: func(gnet.Engine) {
			select {
			case got := <-closed:
				closed <- got
			case <-time.After(patience / 2):
				t.Error("it waits in vain")
			}
		},
	}, idle.Policy{IdleTimeout: limit}, nil, tcp())
	begun := time.Now()
	dial(t, s.address)
	receive(t, opened)
	s.stop(t)
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, limit)
}

// TestBootFails: whichever handler's OnBoot fails, nothing is left, and the
// user's callbacks are as they were.
func TestBootFails(t *testing.T) {
	user := &handler{boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown },
		shutdown: func(gnet.Engine) { t.Error("OnShutdown was called") }}
	h := wrap(t, user, idle.Policy{IdleTimeout: time.Minute}, nil)
	s := start(t, user, h, tcp(), nil)
	s.await(t)
	noneLeft(t)
}

// TestRunFails: gnet fails before OnBoot, and between it and the start. Then
// the handler serves the next engine.
func TestRunFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	user := &handler{}
	h := wrap(t, user, idle.Policy{IdleTimeout: time.Minute}, nil)
	if err := gnet.Run(h, "tcp://"+ln.Addr().String(), gnet.WithLogger(silent{})); err == nil {
		t.Error("gnet listens twice")
	}
	noneLeft(t)
	h.OnBoot(gnet.Engine{}) // as if it had failed then
	last := h.Tracker()
	for range 2 {
		user.boot = nil // it was the last engine's
		s := start(t, user, h, tcp(), nil)
		exchange(t, dial(t, s.address), "hello")
		if h.OnBoot(gnet.Engine{}) != gnet.Shutdown {
			t.Error("it serves two engines at once")
		}
		s.stop(t)
		noneLeft(t)
		if st := h.Stats(); st.Tracked != 1 || st.Closed != 1 {
			t.Errorf("the second time it counts %+v", st)
		}
		if h.Tracker() == last {
			t.Error("the second run has the tracker of the first")
		}
		last = h.Tracker()
	}
}

// TestShutdown has clients that come back as soon as they are cut. Each is ended once, and
// none is served again. It takes the place of a drain that was begun by hand.
func TestShutdown(t *testing.T) {
	const clients, over = 20, 300 * ms
	var opens atomic.Int64
	s := serve(t, &handler{open: func(gnet.Conn) ([]byte, gnet.Action) { opens.Add(1); return nil, gnet.None }},
		idle.Policy{IdleTimeout: time.Hour}, nil, tcp(), gnet.WithNumEventLoop(2))
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
	switch took := time.Since(begun); {
	case took < over/2:
		t.Errorf("ended within %v, not over %v", took, over)
	case took >= patience:
		t.Errorf("ended after %v, by force: clients that talk all the time aren't busy all the time", took)
	}
	s.await(t)
	if st := s.Stats(); opens.Load() != clients || st.Drained != clients || st.Live != 0 {
		t.Errorf("%d were opened: %+v", opens.Load(), st)
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
	const size = 1 << 20
	h := &handler{open: func(gnet.Conn) ([]byte, gnet.Action) { return make([]byte, size), gnet.None }}
	s := serve(t, h, idle.Policy{WriteTimeout: time.Minute}, nil, []string{"tcp://127.0.0.1:0"})
	nc := dial(t, s.address)
	if err := nc.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil { // it has been opened
		t.Fatal(err)
	}
	go s.Shutdown(context.Background(), idle.Drain{ForceAfter: 2 * time.Minute})
	got := 1
	for b := make([]byte, 32<<10); got < size; time.Sleep(10 * ms) {
		n, err := io.ReadFull(nc, b[:min(len(b), size-got)])
		if got += n; err != nil {
			t.Fatalf("got %d of %d bytes, then %v", got, size, err)
		}
		nc.Write([]byte("ok"))
	}
}

// TestShutdownGivesUp: when ctx is done, connections that are still busy are closed.
func TestShutdownGivesUp(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, tcp())
	exchange(t, dial(t, s.address), "x")
	ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
	defer cancel()
	if err := s.Shutdown(ctx, idle.Drain{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	receive(t, closed)
	s.await(t)
}

// TestShutdownFollowsAnotherDrain: a drain that is begun by hand takes the place of Shutdown's, which
// then goes on until that one has ended the connections.
func TestShutdownFollowsAnotherDrain(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, tcp())
	exchange(t, dial(t, s.address), "x")
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background(), idle.Drain{}) }()
	for begun := time.Now(); s.Tracker().Draining() == nil; time.Sleep(ms) {
		if time.Since(begun) > patience {
			t.Fatal("no drain has begun")
		}
	}
	if _, err := s.Tracker().Drain(idle.Drain{ForceAfter: 200 * ms}); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
	var timeout *idle.TimeoutError
	if got := receive(t, closed); !errors.As(got.err, &timeout) || timeout.Reason != idle.ReasonDrain {
		t.Errorf("OnClose got %v", got.err)
	}
	s.await(t)
}

// TestShutdownOfNothing fails if there is no engine, or none any more.
func TestShutdownOfNothing(t *testing.T) {
	if err := wrap(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil).Shutdown(t.Context(), idle.Drain{}); err != errNotServing {
		t.Errorf("before OnBoot: %v", err)
	}
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil, tcp())
	s.stop(t)
	for range 2 {
		if err := s.Shutdown(t.Context(), idle.Drain{}); err != errNotServing {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestShutdownOfAClient gives up the Shutdown of a client, whose engine goes on. Its drain doesn't,
// and another Shutdown ends the connection.
func TestShutdownOfAClient(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	closed, onClose := closings()
	h := wrap(t, &handler{close: onClose}, idle.Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil)
	cli := client(t, h)
	if _, err := cli.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Shutdown(ctx, idle.Drain{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if h.Tracker().Draining() != nil {
		t.Error("the drain goes on")
	}
	if err := h.Shutdown(t.Context(), idle.Drain{ForceAfter: ms}); err != nil {
		t.Error(err)
	}
	receive(t, closed)
}
