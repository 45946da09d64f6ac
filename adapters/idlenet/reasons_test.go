package idlenet

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A peer does what a case wants, and returns when its last activity was that
// counts.
type peer func(client net.Conn) (last time.Time)

func silent(net.Conn) time.Time { return time.Now() }

// speaks sends a byte now and then, and falls silent.
func speaks(client net.Conn) time.Time {
	for range 5 {
		time.Sleep(73 * time.Millisecond)
		client.Write([]byte("x"))
	}
	return time.Now()
}

// often is not a multiple of the tick: a byte that arrives as a tick begins may
// be seen on either side of it, and each such byte may be excused that tick.
const often = 90*time.Millisecond + tick/7

// trickles sends a byte at a time until it fails.
func trickles(client net.Conn) time.Time {
	begun := time.Now()
	for {
		if _, err := client.Write([]byte("x")); err != nil {
			return begun
		}
		time.Sleep(often)
	}
}

// sips reads a byte at a time until it fails.
func sips(client net.Conn) time.Time {
	begun := time.Now()
	for {
		time.Sleep(often)
		if _, err := client.Read(make([]byte, 1)); err != nil {
			return begun
		}
	}
}

// writes1 writes a byte at a time until it fails.
func writes1(server net.Conn) error {
	for {
		if _, err := server.Write([]byte("x")); err != nil {
			return err
		}
	}
}

func writeHuge(server net.Conn) error {
	_, err := server.Write(make([]byte, 1<<20))
	return err
}

func TestEachLimitHasItsReasonAndIsKeptToTheTick(t *testing.T) {
	const ms = time.Millisecond
	slow := idle.Rate{BytesPerSecond: 100, Grace: 500 * ms}
	passive := idle.Policy{Heartbeat: idle.Heartbeat{Interval: 100 * ms, Misses: 2, Timeout: 50 * ms, Passive: true}}
	for name, c := range map[string]struct {
		policy idle.Policy
		reason idle.Reason
		limit  time.Duration
		peer   peer
		server func(net.Conn) error
		within time.Duration // how much later than the limit it may be
	}{
		"idle from the start":                 {idle.Policy{IdleTimeout: 100 * ms}, idle.ReasonIdle, 100 * ms, silent, readAll, 0},
		"idle after bytes":                    {idle.Policy{IdleTimeout: 100 * ms}, idle.ReasonIdle, 100 * ms, speaks, readAll, 0},
		"read from the start":                 {idle.Policy{ReadTimeout: 100 * ms}, idle.ReasonRead, 100 * ms, silent, readAll, 0},
		"read after bytes":                    {idle.Policy{ReadTimeout: 100 * ms}, idle.ReasonRead, 100 * ms, speaks, readAll, 0},
		"write":                               {idle.Policy{WriteTimeout: 100 * ms}, idle.ReasonWrite, 100 * ms, silent, writeHuge, 0},
		"age":                                 {idle.Policy{MaxAge: time.Second}, idle.ReasonMaxAge, time.Second, trickles, readAll, 0},
		"passive heartbeat":                   {passive, idle.ReasonHeartbeat, 250 * ms, silent, readAll, 0},
		"passive heartbeat in spite of bytes": {passive, idle.ReasonHeartbeat, 250 * ms, trickles, readAll, 0},
		"active heartbeat": {
			idle.Policy{Heartbeat: idle.Heartbeat{Interval: 100 * ms, Timeout: 50 * ms, Misses: 3}},
			idle.ReasonHeartbeat, 250 * ms, silent, readAll, 6 * tick},
		// A byte every 90 ms or so pays for 10 ms. So the end comes soon after an eighth of the grace, and then all of it.
		"trickled input below the idle timeout": {
			idle.Policy{IdleTimeout: 100 * ms, MinReadRate: slow}, idle.ReasonMinReadRate, 500 * ms, trickles, readAll, 160*ms + measuring(500*ms)},
		"trickled output below the write timeout": {
			idle.Policy{WriteTimeout: 100 * ms, MinWriteRate: slow}, idle.ReasonMinWriteRate, 500 * ms, sips, writes1, 160*ms + measuring(500*ms)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.policy, &Options{Ping: func(*Conn) error { return nil }}, func(t *testing.T, server *Conn, client net.Conn) {
				last := make(chan time.Time, 1)
				go func() { last <- c.peer(client) }()
				wantTimeout(t, c.server(server), c.reason)
				at := time.Now()
				server.Close()
				start := <-last
				notBefore(t, at, start, c.limit)
				if late := at.Sub(start) - c.limit; late > 2*tick+c.within {
					t.Errorf("%v late", late)
				}
			})
		})
	}
}

func TestBeatsKeepConnectionAlive(t *testing.T) {
	policy := idle.Policy{Heartbeat: idle.Heartbeat{Interval: 100 * time.Millisecond, Timeout: 50 * time.Millisecond, Passive: true}}
	inBubble(t, policy, nil, func(t *testing.T, server *Conn, _ net.Conn) {
		for range 50 {
			time.Sleep(140 * time.Millisecond)
			server.Beat()
		}
		last := time.Now()
		wantTimeout(t, read1(server), idle.ReasonHeartbeat)
		onTime(t, time.Now(), last, 150*time.Millisecond)
	})
}

// TestEnterChangesTheLimits, before a read and during one.
func TestEnterChangesTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		tracker := newTracker(t, idle.Policy{IdleTimeout: limit})
		phase := func(p idle.Policy) *idle.Phase {
			phase, err := tracker.Phase(p)
			if err != nil {
				t.Fatal(err)
			}
			return phase
		}
		longer := phase(idle.Policy{ReadTimeout: 3 * limit})
		server, _ := pipe(t, tracker, nil)
		server.Enter(phase(idle.Policy{}))
		time.Sleep(time.Minute)
		server.Enter(phase(idle.Policy{ReadTimeout: limit}))
		time.AfterFunc(limit*9/10, func() { server.Enter(longer) })
		start := time.Now()
		wantTimeout(t, read1(server), idle.ReasonRead)
		onTime(t, time.Now(), start, limit*9/10+3*limit)
	})
}
