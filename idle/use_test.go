package idle

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// An answerer is a peer whose server pings. It answers each ping after rtt, unless that is 0.
type answerer struct {
	peer
	r    *rig
	rtt  time.Duration
	sent func() // after a ping was sent, and before Ping returns
}

func (k *answerer) Ping() error {
	k.Sent(2)
	if k.sent != nil {
		k.sent()
	}
	if k.rtt > 0 {
		time.AfterFunc(k.rtt, func() { k.r.do(func() { k.Received(2) }) })
	}
	return nil
}

func (r *rig) answerer(rtt time.Duration) *answerer {
	r.Helper()
	k := &answerer{r: r, rtt: rtt}
	r.track(&k.Conn, k)
	return k
}

// receive reports a message.
func (k *answerer) receive() { k.r.do(func() { k.Received(10); k.Use() }) }

func (k *answerer) isIdleFor(want time.Duration) {
	k.r.Helper()
	var got time.Duration
	k.r.do(func() { got = k.Idle() })
	if got > want || got < want-k.r.late() {
		k.r.Errorf("idle for %v, want %v", got, want)
	}
}

var (
	every20s = Heartbeat{Interval: 20 * time.Second, Timeout: 5 * time.Second}
	explicit = Policy{Heartbeat: every20s, ExplicitUse: true}
)

// TestPingIsNoExplicitUse has pings and answers go on, which aren't use. The other limits count them.
func TestPingIsNoExplicitUse(t *testing.T) {
	onBoth(t, explicit, nil, func(r *rig) {
		alice, bob := r.answerer(time.Second/10), r.answerer(time.Second/10)
		r.wait(133 * time.Second)
		bob.receive()
		r.wait(13 * time.Second)
		alice.isIdleFor(146 * time.Second)
		bob.isIdleFor(13 * time.Second)
		if st := r.Stats(); st.Misses > 0 || st.Pings < 10 {
			r.Errorf("%d pings, %d misses", st.Pings, st.Misses)
		}
	})
}

// TestEveryByteIsUse is what holds without ExplicitUse.
func TestEveryByteIsUse(t *testing.T) {
	onBoth(t, Policy{Heartbeat: every20s}, nil, func(r *rig) {
		k := r.answerer(time.Second / 10)
		pinged := time.Time{}
		k.sent = func() { pinged = time.Now() }
		r.wait(61 * time.Second)
		k.isIdleFor(time.Since(pinged.Add(k.rtt)))
		for _, use := range []func(){k.TouchOut, k.Touch, func() { k.Sent(1) }, func() { k.Received(1) }, k.Use} {
			r.wait(3 * time.Second)
			r.do(use)
			k.isIdleFor(0)
		}
		r.wait(3 * time.Second)
		r.do(k.Beat)
		k.isIdleFor(3 * time.Second)
	})
}

// TestIdleTimeoutOfExplicitUse has bytes move in both directions. Only Use, Enter and an OnTimeout that keeps the
// connection count.
func TestIdleTimeoutOfExplicitUse(t *testing.T) {
	p := Policy{IdleTimeout: time.Minute, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, ExplicitUse: true, Heartbeat: every20s}
	onBoth(t, p, nil, func(r *rig) {
		keep := true
		k := &keepingAnswerer{answerer: answerer{r: r, rtt: time.Second / 10}, keep: func() bool { return keep }}
		r.track(&k.Conn, k)
		r.do(k.AwaitWrite)
		moves := func(d time.Duration) {
			r.Helper()
			for range d / (10 * time.Second) {
				r.lives(&k.peer, 10*time.Second)
				r.do(func() { k.Received(1); k.Sent(1); k.Beat() })
			}
		}
		moves(50 * time.Second)
		k.receive()
		moves(50 * time.Second)
		r.do(func() { k.Enter(r.phase) })
		moves(50 * time.Second)
		k.isIdleFor(50 * time.Second)
		moves(20 * time.Second)
		kept := k.kept
		k.isIdleFor(time.Since(kept))
		keep = false
		moves(time.Until(kept.Add(50 * time.Second)))
		r.dies(&k.peer, kept, time.Minute, ReasonIdle)
	})
}

type keepingAnswerer struct {
	answerer
	keep func() bool
	kept time.Time
}

func (k *keepingAnswerer) OnTimeout(*TimeoutError) bool {
	k.kept = time.Now()
	return k.keep()
}

// TestEvictionBesidePings has the one make room who uses its connection less.
func TestEvictionBesidePings(t *testing.T) {
	onBoth(t, explicit, nil, func(r *rig) {
		if err := r.SetCapacity(Capacity{MaxConns: 2, MinIdle: time.Minute}); err != nil {
			r.Fatal(err)
		}
		alice, bob := r.answerer(time.Second/10), r.answerer(time.Second/10)
		r.wait(133 * time.Second)
		bob.receive()
		r.wait(13 * time.Second)
		r.answerer(time.Second / 10)
		r.wait(time.Second)
		if alice.Live() || !bob.Live() {
			r.Errorf("alice live: %v, bob live: %v", alice.Live(), bob.Live())
		}
	})
}

// TestMinIdleBesidePings: if pings count as use, nobody is idle for longer than the Interval.
func TestMinIdleBesidePings(t *testing.T) {
	onDriver(t, Policy{Heartbeat: every20s}, nil, func(r *rig) {
		err := r.SetCapacity(Capacity{MaxConns: 2, MinIdle: 20 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "Capacity.MinIdle is 20s, but connections are pinged every 20s") {
			r.Errorf("got %v", err)
		}
		for _, c := range []Capacity{{MinIdle: 19 * time.Second}, {MinIdle: time.Hour, Exempt: []*Phase{r.Initial()}}} {
			if err := r.SetCapacity(c); err != nil {
				r.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// TestBeatIsNothingElse reports beats alone. They aren't use, nor input for a limit other than a passive Heartbeat.
func TestBeatIsNothingElse(t *testing.T) {
	for reason, of := range map[Reason]struct {
		policy Policy
		limit  time.Duration
	}{
		ReasonIdle:      {Policy{IdleTimeout: time.Minute, Heartbeat: Heartbeat{Interval: 20 * time.Second, Passive: true}}, time.Minute},
		ReasonRead:      {Policy{ReadTimeout: time.Minute, Heartbeat: Heartbeat{Interval: 20 * time.Second, Passive: true}}, time.Minute},
		ReasonHeartbeat: {Policy{Heartbeat: Heartbeat{Interval: 50 * time.Second, Timeout: 10 * time.Second}}, time.Minute + defaultTick},
	} {
		onBoth(t, of.policy, nil, func(r *rig) {
			p, since := r.pinged(), time.Now()
			for range 5 {
				r.lives(&p.peer, 10*time.Second)
				r.do(p.Beat)
			}
			r.dies(&p.peer, since, of.limit, reason)
		})
	}
}

// TestAnswerPaysAtItsOwnTime has an answer after a long silence under a minimum rate: its bytes
// pay from when they come, though nothing is used.
func TestAnswerPaysAtItsOwnTime(t *testing.T) {
	p := Policy{MinReadRate: Rate{BytesPerSecond: 1, Grace: 30 * time.Second}, Heartbeat: every20s, ExplicitUse: true}
	onBoth(t, p, nil, func(r *rig) {
		k := r.answerer(0)
		since := time.Now()
		k.sent = func() { k.Received(5) }
		r.dies(&k.peer, since, 35*time.Second, ReasonMinReadRate)
	})
}

// TestHeartbeatJitter has connections that were made together pinged apart.
func TestHeartbeatJitter(t *testing.T) {
	const n = 200
	p := Policy{Heartbeat: Heartbeat{Interval: 20 * time.Second, Timeout: 5 * time.Second, Jitter: 10 * time.Second}}
	onBoth(t, p, nil, func(r *rig) {
		begun := time.Now()
		var mu sync.Mutex // pings run beside each other
		seconds := map[int]int{}
		for range n {
			k := r.answerer(time.Second / 10)
			k.sent = func() {
				after := time.Since(begun)
				if after < 10*time.Second || after > 20*time.Second+r.late() {
					r.Errorf("pinged after %v", after)
				}
				mu.Lock()
				seconds[int(after/time.Second)]++
				mu.Unlock()
				k.sent = nil
			}
		}
		r.do(func() {})
		r.wait(21 * time.Second)
		most, sum := 0, 0
		mu.Lock()
		defer mu.Unlock()
		for _, count := range seconds {
			sum += count
			most = max(most, count)
		}
		if sum != n || most > n/3 {
			r.Errorf("%d of %d pinged, %d in one second: %v", sum, n, most, seconds)
		}
	})
}

// TestIdleAfterUseIsExplicit makes use explicit for a connection that is active all the time. It was in use until then.
func TestIdleAfterUseIsExplicit(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := r.peer()
		for range 100 {
			r.wait(time.Minute)
			r.do(p.Touch)
		}
		if err := r.SetPolicy(Policy{IdleTimeout: time.Hour, ExplicitUse: true}); err != nil {
			r.Fatal(err)
		}
		r.wait(time.Minute)
		r.do(func() {
			if d := p.Idle(); d > time.Minute {
				r.Errorf("idle for %v", d)
			}
		})
	})
}
