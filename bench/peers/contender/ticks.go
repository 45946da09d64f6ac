package contender

import "time"

// ticks is the clock of the contenders that are written here and have one.
type ticks struct{ start time.Time }

func (k ticks) now() uint64 { return uint64(time.Since(k.start) / Tick) }

// after returns the tick that begins no sooner than d from now: the present
// tick has partly passed, so one more is needed.
func (k ticks) after(d time.Duration) uint64 { return k.now() + uint64((d+Tick-1)/Tick) + 1 }

// every calls do once a tick until stop is closed.
func every(tick time.Duration, stop <-chan struct{}, do func()) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			do()
		}
	}
}
