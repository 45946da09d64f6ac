package idle

import (
	"runtime"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// TestEnterStoresThePhaseLast loads the words of a connection while it enters phases, in the order in which snapshot
// does. All limits of the phase that is seen must have begun.
func TestEnterStoresThePhaseLast(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("needs two processors")
	}
	tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	s := tr.newShard(nil) // which tells the time that is stored in it
	c := &Conn{shard: s}
	c.in.at.Store(waiting)
	enter := func(tick int64) {
		s.now.Store(clock.StampOf(tick))
		p := new(Phase)
		l := &limits{soonest: uint32(tick), beats: 1}
		p.now.Store(l)
		c.begin(l)
		c.phase.Store(p)
	}
	enter(1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := int64(2); ; tick++ {
			select {
			case <-stop:
				return
			default:
				enter(tick)
			}
		}
	}()
	bad := 0
	for begun := time.Now(); time.Since(begun) < raceTime()/4; {
		entered := int64(c.limits().soonest)
		snap := c.snapshot(clock.Moment{Now: entered})
		for _, tick := range []int64{snap.began, snap.used, snap.beat, snap.pinged, snap.in.at / int64(tr.clock.Tick)} {
			if tick < entered {
				bad++
			}
		}
	}
	close(stop)
	<-stopped
	if bad > 0 {
		t.Errorf("%d times a limit was seen to have begun before its phase", bad)
	}
}

// TestRestartTakesBackNothing restarts limits from a time before that of what began meanwhile, as when the restart
// is preempted.
func TestRestartTakesBackNothing(t *testing.T) {
	const wait, paid = int64(time.Hour) | waiting, 2 * int64(time.Hour)
	c := Conn{shard: &Shard{clock: clock.New(time.Millisecond, func() {})}}
	c.in.at.Store(wait)
	c.in.paid.Store(paid)
	c.in.rewait(500, true)
	c.letOff(&c.in)
	if now, had := c.in.at.Load(), c.in.paid.Load(); now != wait+2 || had != paid { // letOff moves it by a trifle
		t.Errorf("the wait began at %d, and %d is paid", now, had)
	}
}
