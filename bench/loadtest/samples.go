package main

import (
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A sample is how things stood at a moment of the run.
type sample struct {
	at     time.Duration // since the start
	busy   time.Duration // that the tracker has worked till then
	live   int
	closed int
}

// sampler takes samples in the background.
type sampler struct {
	stop func()
	all  []sample
}

const samplesWanted = 100

// sampleInBackground takes about samplesWanted samples of the tracker in a run of
// the given length, until stop is called.
func sampleInBackground(t *idle.Tracker, run time.Duration) *sampler {
	s := &sampler{}
	done := make(chan struct{})
	start := time.Now()
	every := time.NewTicker(max(run/samplesWanted, time.Millisecond))
	var wg sync.WaitGroup
	wg.Go(func() {
		defer every.Stop()
		for {
			s.all = append(s.all, sampleOf(t, time.Since(start)))
			select {
			case <-every.C:
			case <-done:
				return
			}
		}
	})
	s.stop = func() {
		close(done)
		wg.Wait()
	}
	return s
}

func sampleOf(t *idle.Tracker, at time.Duration) sample {
	st := t.Stats()
	closed := 0
	for _, n := range st.TimedOut {
		closed += int(n)
	}
	return sample{at, st.Busy, int(st.Live), closed}
}
