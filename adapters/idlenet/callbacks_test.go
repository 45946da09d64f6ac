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
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		tracker := newTracker(t, idle.Policy{ReadTimeout: limit})
		var asked []time.Time
		var server *Conn
		opts := &Options{OnTimeout: func(c *Conn, err *idle.TimeoutError) bool {
			if c != server || err.Reason != idle.ReasonRead || c.Timeout() != nil {
				t.Errorf("asked about %p for %v, its Timeout being %v", c, err, c.Timeout())
			}
			asked = append(asked, time.Now())
			return len(asked) < 3
		}}
		server, _ = pipe(t, tracker, opts)
		opts.OnTimeout = nil // they are copied, because they are often one variable for many connections
		last := time.Now()
		wantTimeout(t, read1(server), idle.ReasonRead)
		if len(asked) != 3 {
			t.Fatalf("asked %d times", len(asked))
		}
		for _, at := range asked {
			onTime(t, at, last, limit)
			last = at
		}
		if st := tracker.Stats(); st.Extended != 2 || st.TimedOut[idle.ReasonRead] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestOnTimeoutDelaysOnlyItsOwn: one that blocks, and one that panics, harm nobody else.
func TestOnTimeoutDelaysOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		tracker, err := idle.New(idle.Policy{IdleTimeout: limit}, &idle.Options{Tick: tick, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		slow, _ := pipe(t, tracker, &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool { time.Sleep(time.Second); return false }})
		panics, _ := pipe(t, tracker, &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool { panic("oops") }})
		other, _ := pipe(t, tracker, nil)
		start := time.Now()
		for _, c := range []*Conn{panics, other} {
			wantTimeout(t, read1(c), idle.ReasonIdle)
			onTime(t, time.Now(), start, limit)
		}
		wantTimeout(t, read1(slow), idle.ReasonIdle)
		onTime(t, time.Now(), start, limit+time.Second)
		if n := tracker.Stats().Panics; n != 1 {
			t.Errorf("%d panics counted", n)
		}
	})
}

func TestCloseInsideCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{MaxAge: 100 * time.Millisecond, MaxAgeGrace: time.Hour, IdleTimeout: 500 * time.Millisecond})
		for _, opts := range []*Options{
			{OnDrain: func(c *Conn) { c.Close() }},
			{OnTimeout: func(c *Conn, _ *idle.TimeoutError) bool { c.Close(); return true }},
		} {
			server, _ := pipe(t, tracker, opts)
			if err := read1(server); err != io.ErrClosedPipe {
				t.Errorf("got %v", err)
			}
		}
		if st := tracker.Stats(); st.Closed != 2 || st.Live != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestOnDrainComesAtMaxAgeAndTheEndAfterTheGrace(t *testing.T) {
	const age, grace = 200 * time.Millisecond, 300 * time.Millisecond
	var drained []time.Time
	opts := &Options{
		OnDrain:   func(*Conn) { drained = append(drained, time.Now()) },
		OnTimeout: func(*Conn, *idle.TimeoutError) bool { t.Error("OnTimeout is asked"); return true },
	}
	inBubble(t, idle.Policy{MaxAge: age, MaxAgeGrace: grace}, opts, func(t *testing.T, server *Conn, client net.Conn) {
		start := time.Now()
		go trickles(client)
		wantTimeout(t, readAll(server), idle.ReasonMaxAge)
		if len(drained) != 1 {
			t.Fatalf("OnDrain was called %d times", len(drained))
		}
		onTime(t, drained[0], start, age)
		onTime(t, time.Now(), drained[0], grace)
		if off := time.Since(start) - server.Timeout().Elapsed; off < -2*tick || off > 2*tick {
			t.Errorf("after %v the error says %v", time.Since(start), server.Timeout())
		}
	})
}

func TestPings(t *testing.T) {
	const interval = 100 * time.Millisecond
	policy := idle.Policy{Heartbeat: idle.Heartbeat{Interval: interval, Timeout: interval / 2, Misses: 2}}
	for name, ping := range map[string]func(*Conn) error{
		"are answered": nil,
		"block":        func(c *Conn) error { _, err := c.Write([]byte("?")); return err }, // the peer reads nothing
		"fail":         func(*Conn) error { return io.ErrClosedPipe },
		"panic":        func(*Conn) error { panic("oops") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker, err := idle.New(policy, &idle.Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer tracker.Close()
				var pings atomic.Int32
				server, client := pipe(t, tracker, &Options{Ping: func(c *Conn) error {
					pings.Add(1)
					if ping != nil {
						return ping(c)
					}
					_, err := c.Write([]byte("?"))
					return err
				}})
				if ping != nil { // each is a miss
					start := time.Now()
					wantTimeout(t, read1(server), idle.ReasonHeartbeat)
					notBefore(t, time.Now(), start, 2*interval)
					return
				}
				go io.Copy(client, client) // a pong is the ping sent back
				go readAll(server)
				time.Sleep(100 * interval)
				if err, n := server.Timeout(), pings.Load(); err != nil || n < 80 || n > 100 {
					t.Errorf("%d pings in 10 s, want one about every 100 ms; ended by %v", n, err)
				}
			})
		})
	}
}

// What others write while OnTimeout makes up its mind about another limit is an
// activity like any other; no kernel tells of it on a pipe.
func TestWritesWhileOnTimeoutIsAskedCount(t *testing.T) {
	asked := 0
	opts := &Options{OnTimeout: func(_ *Conn, err *idle.TimeoutError) bool {
		asked++
		if err.Reason != idle.ReasonRead {
			t.Errorf("asked about %v", err)
		}
		time.Sleep(5 * time.Second)
		return asked == 1
	}}
	inBubble(t, idle.Policy{IdleTimeout: 2 * time.Second, ReadTimeout: time.Second}, opts, func(t *testing.T, server *Conn, client net.Conn) {
		go readAll(client)
		go func() {
			for range 100 {
				server.Write([]byte("x"))
				time.Sleep(100 * time.Millisecond)
			}
		}()
		start := time.Now()
		wantTimeout(t, read1(server), idle.ReasonRead)
		notBefore(t, time.Now(), start, 12*time.Second)
	})
}

// TestCallbacksWaitInABubble: a callback that writes waits for the Write that is under way. In a test
// with virtual time, the clock goes on meanwhile.
func TestCallbacksWaitInABubble(t *testing.T) {
	const limit = time.Minute
	calls := 0
	writes := func(c *Conn) error { _, err := c.Write([]byte("x")); return err }
	called := func(c *Conn) error { calls++; return writes(c) }
	for name, test := range map[string]struct {
		policy idle.Policy
		opts   Options
	}{
		"Ping":      {idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit, Timeout: limit}}, Options{Ping: called}},
		"OnDrain":   {idle.Policy{MaxAge: limit, MaxAgeGrace: limit}, Options{OnDrain: func(c *Conn) { called(c) }}},
		"OnTimeout": {idle.Policy{IdleTimeout: limit}, Options{OnTimeout: func(c *Conn, _ *idle.TimeoutError) bool { called(c); return false }}},
		"OnEnd":     {idle.Policy{MaxAge: limit}, Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) { called(c) }}},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			inBubble(t, test.policy, &test.opts, func(t *testing.T, c *Conn, client net.Conn) {
				begun := time.Now()
				written := make(chan error, 1)
				go func() { written <- writes(c) }() // the peer doesn't read for long
				time.Sleep(3 * limit / 2)
				synctest.Wait()
				if calls != 1 {
					t.Errorf("called %d times", calls)
				}
				time.AfterFunc(limit, func() { client.Close() })
				<-written
				if took := time.Since(begun); took > 3*limit {
					t.Errorf("the Write ended after %v", took)
				}
			})
		})
	}
}
