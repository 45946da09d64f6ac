package idlenet

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestReadsShorterThanATick has a peer whose bytes come one at a time, and a
// server that takes its time for each. The minimum rate, which counts the time that reads take in
// all, must neither be missed too early nor be escaped from, however the reads
// fall on the ticks.
func TestReadsShorterThanATick(t *testing.T) {
	const tick, limit = 10 * time.Millisecond, 2 * time.Second
	policy := idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 1 << 10, Grace: limit}}
	for _, wait := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 9 * time.Millisecond} {
		for offset := time.Duration(0); offset < tick; offset += tick / 5 {
			t.Run(fmt.Sprint(wait, " at ", offset), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, &idle.Options{Tick: tick})
					if err != nil {
						t.Fatal(err)
					}
					defer tracker.Close()
					phase, err := tracker.Phase(policy)
					if err != nil {
						t.Fatal(err)
					}
					a, b := net.Pipe()
					defer b.Close()
					c, err := wrapConn(a, tracker, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()

					time.Sleep(tick + offset)
					var most time.Duration // what the bytes pay for
					reading, wrote := make(chan struct{}), make(chan struct{})
					go func() {
						defer close(wrote)
						for range reading {
							time.Sleep(wait)
							b.Write([]byte("x"))
						}
					}()
					defer func() { close(reading); b.Close(); <-wrote }()
					read := func() (took time.Duration, err error) {
						reading <- struct{}{}
						begun := time.Now()
						_, err = c.Read(make([]byte, 1))
						return time.Since(begun), err
					}
					read() // a wait that begins before the phase does
					c.Enter(phase)
					time.Sleep(limit / 2) // nobody reads
					var waited time.Duration
					for err == nil {
						time.Sleep(tick - wait) // the server is busy
						var took time.Duration
						took, err = read()
						waited += took
						most += time.Second >> 10
						if waited > 2*limit+most {
							t.Fatalf("not timed out after %v of waiting", waited)
						}
					}
					most += limit + measuring(limit) + 3*tick + tick/8 + wait
					if waited < limit || waited > most {
						t.Errorf("timed out after %v of waiting; want %v to %v (%v)", waited, limit, most, err)
					}
				})
			})
		}
	}
}

// TestPolledReads has a server that reads with deadlines of its own, and works in
// between, while the peer is silent. All of that is one wait.
func TestPolledReads(t *testing.T) {
	testPolled(t, map[string]idle.Policy{
		"timeout": {ReadTimeout: pollLimit},
		"rate":    {MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: pollLimit}},
	}, func(c *Conn, until time.Time) {
		c.SetReadDeadline(until)
		c.Read(make([]byte, 1))
	})
}

// TestPolledWrites has the same of writes that nobody takes.
func TestPolledWrites(t *testing.T) {
	testPolled(t, map[string]idle.Policy{
		"timeout": {WriteTimeout: pollLimit},
		"rate":    {MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: pollLimit}},
	}, func(c *Conn, until time.Time) {
		c.SetWriteDeadline(until)
		c.Write(make([]byte, 1))
	})
}

const pollLimit = 2 * time.Second

// measuring is how much later than after its Grace a minimum rate may end a connection whose waits aren't measured at first.
func measuring(grace time.Duration) time.Duration { return grace/8 + 2*tick }

func testPolled(t *testing.T, policies map[string]idle.Policy, try func(c *Conn, until time.Time)) {
	for name, policy := range policies {
		for _, poll := range []struct{ wait, work time.Duration }{
			{100 * time.Millisecond, 900 * time.Millisecond},
			{500 * time.Millisecond, 500 * time.Millisecond},
			{10 * time.Millisecond, 90 * time.Millisecond},
			{10 * time.Millisecond, 10 * time.Millisecond},
			{time.Millisecond, 0},
			{3 * time.Millisecond, 4 * time.Millisecond},
		} {
			t.Run(fmt.Sprint(name, " ", poll), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, _ := pipe(t, newTracker(t, policy), nil)
					begun := time.Now()
					for c.Timeout() == nil && time.Since(begun) < 2*pollLimit {
						try(c, time.Now().Add(poll.wait))
						time.Sleep(poll.work)
					}
					took := time.Since(begun)
					if most := pollLimit + measuring(pollLimit) + 3*tick + tick/8 + poll.wait + poll.work; took < pollLimit || took > most {
						t.Errorf("timed out after %v; want %v to %v (%v)", took, pollLimit, most, c.Timeout())
					}
				})
			})
		}
	}
}

// TestPhaseAfterAPoll enters a phase after a read that got nothing. The wait goes on, and counts from then.
func TestPhaseAfterAPoll(t *testing.T) {
	const limit = 2 * time.Second
	for name, policy := range map[string]idle.Policy{
		"timeout": {ReadTimeout: limit},
		"rate":    {MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: limit}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker := newTracker(t, idle.Policy{ReadTimeout: limit})
				phase, err := tracker.Phase(policy)
				if err != nil {
					t.Fatal(err)
				}
				c, _ := pipe(t, tracker, nil)
				c.SetReadDeadline(time.Now().Add(limit / 2))
				wantUserTimeout(t, read1(c))
				c.SetReadDeadline(time.Time{})
				c.Enter(phase)
				start := time.Now()
				time.Sleep(limit * 3 / 4)
				err, at := await(t, func() error { return read1(c) })
				if wantTimeout(t, err, c.Timeout().Reason); at.Sub(start) < limit || at.Sub(start) > limit+measuring(limit)+3*tick+tick/8 {
					t.Errorf("after %v: %v", at.Sub(start), err)
				}
			})
		})
	}
}
