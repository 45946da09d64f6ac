package idle

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestBeatsLeavesTheCompliantAlone beats at the least interval, and has the network delay
// each beat by up to what the strikes allow.
func TestBeatsLeavesTheCompliantAlone(t *testing.T) {
	const least = time.Second
	for strikes := 1; strikes <= 3; strikes++ {
		onBoth(t, Policy{Name: "chat", IdleTimeout: time.Hour, Beats: Beats{Least: least, Strikes: strikes}}, nil, func(r *rig) {
			g := &guest{}
			r.track(&g.conn, g)
			rng := rand.New(rand.NewPCG(5, uint64(strikes)))
			begun, last := time.Now(), time.Duration(0)
			for n := 1; n < 5000; n++ {
				delay := time.Duration(rng.Int64N(int64(least) * int64(strikes)))
				last = max(last, time.Duration(n)*least+delay)
				r.wait(time.Until(begun.Add(last)))
				r.do(g.conn.Beat)
			}
			r.wait(time.Second)
			if g.err != nil {
				t.Errorf("%d strikes: %v", strikes, g.err)
			}
		})
	}
}

func TestBeatsEndsFloods(t *testing.T) {
	onBoth(t, Policy{Name: "chat", IdleTimeout: time.Hour, Beats: Beats{Least: time.Second}}, nil, func(r *rig) {
		g := &guest{}
		r.track(&g.conn, g)
		n := 0
		for ; n < 100 && g.err == nil; n++ {
			r.wait(200 * time.Millisecond)
			r.do(g.conn.Beat)
			r.wait(50 * time.Millisecond)
		}
		if n != 3 || g.err == nil || g.err.Reason != ReasonBeats {
			t.Fatalf("after %d beats: %v", n, g.err)
		}
		if s := g.err.Error(); !strings.Contains(s, "chat: Beats: too many beats; there may be one every 1s, and the last one came after 2") {
			t.Error(s)
		}
		if st := r.Stats(); st.TimedOut[ReasonBeats] != 1 || st.Live != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestBeatsBeginsAnewWithEachPhase(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour, Beats: Beats{Least: time.Second, Strikes: 3}}, nil, func(r *rig) {
		g := &guest{}
		r.track(&g.conn, g)
		for range 100 {
			for range 3 {
				r.wait(100 * time.Millisecond)
				r.do(g.conn.Beat)
			}
			r.do(func() { g.conn.Enter(r.phase) })
		}
		if r.wait(time.Second); g.err != nil {
			t.Error(g.err)
		}
	})
}

func TestBeatsOfNonsense(t *testing.T) {
	for want, p := range map[string]Policy{
		"Beats.Least is -1s":       {Beats: Beats{Least: -time.Second}},
		"Beats.Strikes is -1":      {Beats: Beats{Least: time.Second, Strikes: -1}},
		"Beats.Strikes is 101":     {Beats: Beats{Least: time.Second, Strikes: 101}},
		"Least is 0":               {Beats: Beats{Strikes: 1}},
		"it must be at least 20ms": {Beats: Beats{Least: 15 * time.Millisecond}},
		"the Heartbeat is active":  {Beats: Beats{Least: time.Second}, Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}},
	} {
		if tr, err := New(p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", p, err)
			if tr != nil {
				tr.Close()
			}
		}
	}
}
