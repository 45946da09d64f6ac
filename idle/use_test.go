package idle

import (
	"errors"
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
	fail bool
}

func (k *answerer) Ping() error {
	if k.fail {
		return errors.New("broken pipe")
	}
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

// receive reports use by the peer.
func (k *answerer) receive() { k.r.do(func() { k.Received(10) }) }

func (k *answerer) isIdleFor(want time.Duration) {
	k.r.Helper()
	var got time.Duration
	k.r.do(func() { got = k.Idle() })
	if got > want || got < want-k.r.late() {
		k.r.Errorf("idle for %v, want %v", got, want)
	}
}

var every20s = Heartbeat{Interval: 20 * time.Second, Timeout: 5 * time.Second}

// TestPingIsNoUse has pings and answers go on, by which nothing is used.
func TestPingIsNoUse(t *testing.T) {
	onBoth(t, Policy{Heartbeat: every20s}, nil, func(r *rig) {
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

// TestEvictionBesidePings has the one make room who uses its connection less.
func TestEvictionBesidePings(t *testing.T) {
	onBoth(t, Policy{Heartbeat: every20s}, nil, func(r *rig) {
		if err := r.SetCapacity(Capacity{MaxConns: 2}); err != nil {
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

// TestGraceBesidePings is README's Heartbeat of a minute, with a Capacity that spares those that were
// used within a minute.
func TestGraceBesidePings(t *testing.T) {
	p := Policy{Heartbeat: Heartbeat{Interval: time.Minute, Timeout: 10 * time.Second, Misses: 2}}
	onBoth(t, p, nil, func(r *rig) {
		if err := r.SetCapacity(Capacity{MaxConns: 1, MinIdle: time.Minute}); err != nil {
			r.Fatal(err)
		}
		alice := r.answerer(time.Second / 10)
		r.wait(10*time.Minute + 30*time.Second)
		bob := r.answerer(time.Second / 10)
		r.wait(time.Second)
		if alice.Live() || !bob.Live() {
			r.Errorf("alice live: %v, bob live: %v", alice.Live(), bob.Live())
		}
	})
}

func TestIdleTimeoutBesidePings(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute, Heartbeat: every20s}, nil, func(r *rig) {
		k := r.answerer(time.Second / 10)
		r.wait(30 * time.Second)
		k.receive()
		since := time.Now()
		r.dies(&k.peer, since, time.Minute, ReasonIdle)
	})
}

// TestMinIdleBesidePingsThatCount: if a ping counts as use, nobody is idle for longer than its Interval.
func TestMinIdleBesidePingsThatCount(t *testing.T) {
	h := every20s
	h.CountsAsUse = true
	onDriver(t, Policy{Heartbeat: h}, nil, func(r *rig) {
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

// TestPingCountsAsUse is the former meaning.
func TestPingCountsAsUse(t *testing.T) {
	h := every20s
	h.CountsAsUse = true
	onBoth(t, Policy{IdleTimeout: time.Minute, Heartbeat: h}, nil, func(r *rig) {
		k := r.answerer(time.Second / 10)
		r.lives(&k.peer, 10*time.Minute)
		if idle := k.Idle(); idle > 21*time.Second {
			r.Errorf("idle for %v", idle)
		}
	})
}

// TestUseBesideAnswer has use in the tick of the answer, before it and after it.
func TestUseBesideAnswer(t *testing.T) {
	onBoth(t, Policy{Heartbeat: every20s}, nil, func(r *rig) {
		k := r.answerer(0)
		k.sent = func() {
			k.Received(2) // the answer
			k.Received(9)
		}
		r.wait(22 * time.Second)
		k.isIdleFor(2 * time.Second)
	})
}

// TestUseWhilePinging has the application write beside a ping that blocks for long.
func TestUseWhilePinging(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 30 * time.Second, Heartbeat: Heartbeat{Interval: 20 * time.Second, Timeout: time.Hour}}, nil, func(r *rig) {
		k := r.answerer(0)
		blocked := make(chan struct{})
		k.sent = func() { <-blocked }
		r.wait(20*time.Second + r.late())
		for range 10 {
			r.lives(&k.peer, 9*time.Second)
			k.Sent(100)
		}
		close(blocked)
		r.dies(&k.peer, time.Now(), 30*time.Second, ReasonIdle)
	})
}

// TestUseAfterFailedPing has no answer awaited if the ping was not sent.
func TestUseAfterFailedPing(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute, Heartbeat: Heartbeat{Interval: 20 * time.Second, Timeout: time.Hour}}, nil, func(r *rig) {
		k := r.answerer(0)
		k.fail = true
		r.lives(&k.peer, 50*time.Second)
		k.receive()
		r.dies(&k.peer, time.Now(), time.Minute, ReasonIdle)
	})
}

// TestBeatIsNoUse reports beats alone.
func TestBeatIsNoUse(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute, ReadTimeout: 30 * time.Second, Heartbeat: Heartbeat{Interval: 20 * time.Second, Passive: true}}, nil, func(r *rig) {
		p := r.peer()
		since := time.Now()
		for range 5 {
			r.lives(p, 10*time.Second)
			r.do(p.Beat)
		}
		r.dies(p, since, time.Minute, ReasonIdle)
	})
}

// TestAnswerPaysAtItsOwnTime has an answer after a long silence under a minimum rate: its bytes
// pay from when they come, though nothing is used.
func TestAnswerPaysAtItsOwnTime(t *testing.T) {
	p := Policy{MinReadRate: Rate{BytesPerSecond: 1, Grace: 30 * time.Second}, Heartbeat: every20s}
	onBoth(t, p, nil, func(r *rig) {
		k := r.answerer(0)
		since := time.Now()
		k.sent = func() { k.Received(5) }
		r.dies(&k.peer, since, 35*time.Second, ReasonMinReadRate)
	})
}

// TestEvidenceOfPing has the kernel report the time of the ping and of the answer, as it
// does: nothing else was sent or has arrived.
func TestEvidenceOfPing(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute, Heartbeat: every20s}, nil, func(r *rig) {
		k := &examinedAnswerer{answerer: answerer{r: r, rtt: time.Second / 10}}
		k.answerer.sent = func() { k.pinged = time.Now() }
		r.track(&k.Conn, k)
		r.dies(&k.peer, time.Now(), time.Minute, ReasonIdle)
	})
}

type examinedAnswerer struct {
	answerer
	pinged time.Time
}

func (k *examinedAnswerer) Examine() SocketState {
	if k.pinged.IsZero() {
		return SocketState{}
	}
	return SocketState{In: time.Since(k.pinged.Add(k.rtt)), Out: time.Since(k.pinged), OutEmpty: true}
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

// TestBeatOutIsNoUse reports output that keeps the connection alive: it's no use, but the peer has
// taken it.
func TestBeatOutIsNoUse(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute, WriteTimeout: 15 * time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.do(p.AwaitWrite)
		since := time.Now()
		for range 5 {
			r.lives(p, 10*time.Second)
			r.do(func() { p.BeatOut(1) })
		}
		r.dies(p, since, time.Minute, ReasonIdle)
	})
	onBoth(t, Policy{MinWriteRate: Rate{1, 10 * time.Second}}, nil, func(r *rig) {
		p := r.peer()
		r.do(p.AwaitWrite)
		since := time.Now()
		r.do(func() { p.BeatOut(20) })
		r.dies(p, since, 30*time.Second, ReasonMinWriteRate)
	})
}
