package idlenet

import (
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestOnTimeoutKeepBeginsTheLimitAnew(t *testing.T) {
	for _, reason := range []idle.Reason{idle.ReasonIdle, idle.ReasonRead} {
		t.Run(reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = 100 * time.Millisecond
				policy := map[idle.Reason]idle.Policy{
					idle.ReasonIdle: {IdleTimeout: limit},
					idle.ReasonRead: {ReadTimeout: limit},
				}[reason]
				tracker := newTracker(t, policy)
				asked := []time.Time{}
				var server *Conn
				server, _ = pipe(t, tracker, &Options{OnTimeout: func(c *Conn, err *idle.TimeoutError) bool {
					if c != server || err.Reason != reason || c.Timeout() != nil {
						t.Errorf("asked about %p for %v, its Timeout being %v", c, err, c.Timeout())
					}
					asked = append(asked, time.Now())
					return len(asked) < 3
				}})
				last := time.Now()
				err, _ := await(t, func() error { return read1(server) })
				wantTimeout(t, err, reason)
				if len(asked) != 3 {
					t.Fatalf("asked %d times", len(asked))
				}
				for _, at := range asked {
					onTime(t, at, last, limit)
					last = at
				}
				if st := tracker.Stats(); st.Extended != 2 || st.TimedOut[reason] != 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func TestOnTimeoutMayBlockAndDelaysOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: 100 * time.Millisecond})
		ask := &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool {
			time.Sleep(time.Second)
			return false
		}}
		slow, _ := pipe(t, tracker, ask)
		other, _ := pipe(t, tracker, nil)
		start := time.Now()
		err, at := await(t, func() error { return read1(other) })
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, at, start, 100*time.Millisecond)
		err, at = await(t, func() error { return read1(slow) })
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, at, start, 1100*time.Millisecond)
	})
}

func TestActivityWhileAskedKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: 100 * time.Millisecond})
		server, client := pipe(t, tracker, &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool {
			time.Sleep(50 * time.Millisecond)
			return false
		}})
		go readAll(server)
		time.Sleep(125 * time.Millisecond) // in the middle of the question
		client.Write([]byte("x"))
		last := time.Now()
		eventually(t, "timed out", func() bool { return server.Timeout() != nil })
		notBefore(t, time.Now(), last, 150*time.Millisecond)
	})
}

func TestPanicInOnTimeoutClosesAndHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: 100 * time.Millisecond},
			&idle.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		server, _ := pipe(t, tracker, &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool { panic("oops") }})
		other, _ := pipe(t, tracker, nil)
		wantTimeout(t, read1(server), idle.ReasonIdle)
		wantTimeout(t, read1(other), idle.ReasonIdle)
		if n := tracker.Stats().Panics; n != 1 {
			t.Errorf("%d panics counted", n)
		}
	})
}

func TestCloseInsideCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{MaxAge: 100 * time.Millisecond, MaxAgeGrace: time.Hour, IdleTimeout: 500 * time.Millisecond})
		drained, _ := pipe(t, tracker, &Options{OnDrain: func(c *Conn) { c.Close() }})
		if err := read1(drained); err != io.ErrClosedPipe {
			t.Errorf("got %v", err)
		}
		asked, _ := pipe(t, tracker, &Options{OnTimeout: func(c *Conn, _ *idle.TimeoutError) bool {
			c.Close()
			return true
		}})
		if err := read1(asked); err != io.ErrClosedPipe {
			t.Errorf("got %v", err)
		}
		if st := tracker.Stats(); st.Closed != 2 || st.Live != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestOnDrainComesAtMaxAgeAndTheEndAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age, grace = 200 * time.Millisecond, 300 * time.Millisecond
		drained := make(chan time.Time, 2)
		start := time.Now()
		server, client := pipe(t, newTracker(t, idle.Policy{MaxAge: age, MaxAgeGrace: grace}),
			&Options{
				OnDrain:   func(*Conn) { drained <- time.Now() },
				OnTimeout: func(*Conn, *idle.TimeoutError) bool { t.Error("OnTimeout is asked"); return true },
			})
		last := make(chan time.Time, 1)
		go func() { last <- trickles(client) }()
		err, at := await(t, func() error { return readAll(server) })
		wantTimeout(t, err, idle.ReasonMaxAge)
		server.Close()
		<-last
		told := <-drained
		onTime(t, told, start, age)
		onTime(t, at, told, grace)
		if len(drained) > 0 {
			t.Error("OnDrain was called twice")
		}
	})
}

func TestNoCallbackAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := atomic.Int32{}
		opts := &Options{
			Ping:      func(*Conn) error { calls.Add(1); return nil },
			OnTimeout: func(*Conn, *idle.TimeoutError) bool { calls.Add(1); return true },
			OnDrain:   func(*Conn) { calls.Add(1) },
		}
		server, _ := pipe(t, newTracker(t, idle.Policy{
			IdleTimeout: 100 * time.Millisecond, MaxAge: 100 * time.Millisecond, MaxAgeGrace: 100 * time.Millisecond,
			Heartbeat: idle.Heartbeat{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond},
		}), opts)
		time.Sleep(50 * time.Millisecond)
		server.Close()
		time.Sleep(time.Minute)
		if n := calls.Load(); n != 0 {
			t.Errorf("%d callbacks", n)
		}
	})
}

func TestPingThatBlocksOrFailsCountsAsMiss(t *testing.T) {
	for name, ping := range map[string]func(*Conn) error{
		"blocks": func(c *Conn) error { _, err := c.Write([]byte("?")); return err }, // the peer reads nothing
		"fails":  func(*Conn) error { return io.ErrClosedPipe },
		"panics": func(*Conn) error { panic("oops") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker, err := idle.New(
					idle.Policy{Heartbeat: idle.Heartbeat{Interval: 100 * time.Millisecond, Timeout: 50 * time.Millisecond, Misses: 2}},
					&idle.Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer tracker.Close()
				server, _ := pipe(t, tracker, &Options{Ping: ping})
				start := time.Now()
				err, at := await(t, func() error { return read1(server) })
				wantTimeout(t, err, idle.ReasonHeartbeat)
				notBefore(t, at, start, 200*time.Millisecond)
			})
		})
	}
}

func TestEnterPanicsIfPhasePingsButNobodyCan(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	phase, err := tracker.Phase(idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	server, _ := pipe(t, tracker, nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	server.Enter(phase)
}

// Options are copied: what their owner does to them later is nobody's business.
func TestOptionsOfListenerAreCopied(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond})
	opts := &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool { return false }}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := share(t, bare, tracker, opts)
	defer ln.Close()
	opts.OnTimeout = nil
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	wantTimeout(t, read1(server), idle.ReasonIdle)
}

// WrapConn is given options too. They are often one variable for many connections.
func TestOptionsOfWrapAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := false
		opts := &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool { asked = true; return false }}
		server, _ := pipe(t, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), opts)
		opts.OnTimeout = nil
		wantTimeout(t, read1(server), idle.ReasonIdle)
		if !asked {
			t.Error("a change of the options after WrapConn reaches the connection, and would panic")
		}
	})
}

// What others write while OnTimeout makes up its mind about another limit is an
// activity like any other; no kernel tells of it on a pipe.
func TestWritesWhileOnTimeoutIsAskedCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: 2 * time.Second, ReadTimeout: time.Second}), &Options{
			OnTimeout: func(_ *Conn, err *idle.TimeoutError) bool {
				asked++
				if err.Reason != idle.ReasonRead {
					t.Errorf("asked about %v", err)
				}
				time.Sleep(5 * time.Second)
				return asked == 1
			}})
		go readAll(client)
		go func() {
			for range 100 {
				server.Write([]byte("x"))
				time.Sleep(100 * time.Millisecond)
			}
		}()
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonRead)
		notBefore(t, at, start, 12*time.Second)
	})
}
