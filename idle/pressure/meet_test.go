package pressure

import (
	"sync/atomic"
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

// TestJitterOfShorterPings makes the Interval of pings shorter than the Jitter at rest.
func TestJitterOfShorterPings(t *testing.T) {
	pings := slow
	pings.Heartbeat = idle.Heartbeat{Interval: time.Minute, Timeout: 10 * time.Second, Jitter: time.Minute, CountsAsUse: true}
	inBubble(t, slow, func(r *rig) {
		phase := r.phaseOf(pings)
		memory := readingOf(0)
		f := r.follow(Config{Read: memory.read, From: 0.5, Phases: map[*idle.Phase]idle.Policy{phase: {Heartbeat: idle.Heartbeat{Interval: 10 * time.Second}}}})
		for _, reading := range []float64{0.75, 1} {
			memory.set(reading)
			time.Sleep(2 * time.Second)
			if beat := phase.Policy().Heartbeat; f.Failures() > 0 || beat.Interval == time.Minute || beat.Jitter != beat.Interval || !beat.CountsAsUse {
				t.Errorf("at %v: %+v, %d failures", reading, beat, f.Failures())
			}
		}
		f.Stop()
	})
}

// TestOtherTrackersAtRest closes the tracker of a Follower that another tracker follows too.
func TestOtherTrackersAtRest(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		other := newTracker(r.T, slow)
		f := r.follow(Config{Read: readingOf(1).read, From: 0.5, Policy: fast})
		if err := f.Add(other, other.Initial(), fast); err != nil {
			t.Fatal(err)
		}
		r.idles(other.Initial(), 2*time.Second)
		r.Close()
		<-f.Done()
		r.idles(other.Initial(), slow.IdleTimeout)
		if p := f.Pressure(); p != 0 {
			t.Errorf("the pressure is %v", p)
		}
	})
}

// TestCloseWhileReadBlocks closes the tracker while Read hangs. Another tracker, which Add has
// named, is at rest all the same.
func TestCloseWhileReadBlocks(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		other := newTracker(r.T, slow)
		reads, returns := atomic.Int32{}, make(chan struct{})
		f := r.follow(Config{Policy: fast, Read: func() (float64, error) {
			if reads.Add(1) > 1 {
				<-returns
			}
			return 1, nil
		}})
		if err := f.Add(other, other.Initial(), fast); err != nil {
			r.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		r.Close()
		time.Sleep(time.Hour)
		r.idles(other.Initial(), slow.IdleTimeout)
		select {
		case <-f.Done():
		default:
			r.Error("the Follower hasn't stopped with its tracker")
		}
		close(returns)
	})
}
