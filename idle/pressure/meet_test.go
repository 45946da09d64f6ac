package pressure

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestPolicyAsTightAsFull sets a policy at rest that equals the one in force.
func TestPolicyAsTightAsFull(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		memory := readingOf(1)
		r.follow(Config{Read: memory.read, From: 0.5, Policy: fast})
		r.idles(r.Initial(), 2*time.Second)
		if err := r.SetPolicy(r.Policy()); err != nil { // for good, whatever the memory
			t.Fatal(err)
		}
		memory.set(0)
		time.Sleep(20 * time.Second)
		r.idles(r.Initial(), 2*time.Second)
	})
}

// TestPhaseTwice has one phase followed by the Policy and as one of the Phases.
func TestPhaseTwice(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		memory := readingOf(0.75)
		f, err := Follow(r.Tracker, Config{Read: memory.read, From: 0.5, Policy: fast, Phases: map[*idle.Phase]idle.Policy{r.Initial(): fast}})
		if err != nil {
			return
		}
		time.Sleep(time.Minute)
		f.Stop()
		r.idles(r.Initial(), slow.IdleTimeout)
	})
}

// TestAddedTwice has a phase added that is followed already.
func TestAddedTwice(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		memory := readingOf(0.75)
		f := r.follow(Config{Read: memory.read, From: 0.5, Policy: fast})
		if err := f.Add(r.Tracker, r.Initial(), fast); err == nil {
			t.Error("added twice")
		}
		time.Sleep(time.Minute)
		f.Stop()
		r.idles(r.Initial(), slow.IdleTimeout)
	})
}
