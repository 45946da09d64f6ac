package idle

import (
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// TestPanicsAreReportedAndHarmless has all callbacks called, and another peer
// live a normal life beside.
func TestPanicsAreReportedAndHarmless(t *testing.T) {
	policy := Policy{
		ReadTimeout: 5 * time.Second, MaxAge: 3 * time.Second, MaxAgeGrace: time.Hour,
		Heartbeat: Heartbeat{Interval: 2 * time.Second, Timeout: time.Hour},
	}
	all := []string{"Ping", "OnDrain", "Probe", "OnTimeout", "Expire"}
	for _, in := range all {
		t.Run(in, func(t *testing.T) {
			var log strings.Builder
			onBoth(t, policy, &Options{Shards: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(r *rig) {
				log.Reset()
				var calledP, calledQ []string
				p := r.with(calling(func(name string) {
					if calledP = append(calledP, name); name == in {
						panic("in " + name)
					}
				}))
				q, born := r.with(calling(func(name string) { calledQ = append(calledQ, name) })), time.Now()
				r.dies(q, born, 5*time.Second, ReasonRead)
				r.dies(p, born, 5*time.Second, ReasonRead)
				r.wait(2 * time.Second)
				if !slices.Equal(calledP, all) || !slices.Equal(calledQ, all) {
					r.Errorf("called %v and %v, want %v", calledP, calledQ, all)
				}
				if n := r.Stats().Panics; n != 1 || strings.Count(log.String(), "\n") != 1 {
					r.Errorf("%d panics, log %v", n, log.String())
				}
				for _, want := range []string{"level=ERROR", "callback=" + in, `panic="in ` + in + `"`, "stack=\"goroutine"} {
					if !strings.Contains(log.String(), want) {
						r.Errorf("no %s in %s", want, log.String())
					}
				}
			})
		})
	}
}

// inPass has stop be called in the pass that checks c, after that. One
// processor has the goroutines that the pass starts wait until it's over.
func (r *rig) inPass(c *Conn, stop func()) {
	s := r.with(&peer{onExpire: stop, ping: unansweredPing})
	in := c.placed.Load().Sub(clock.StampOf(r.clock.Now())) - 1
	s.Enter(r.phaseOf(Policy{IdleTimeout: time.Duration(in) * r.opts.Tick}))
}

// TestNoCallbackBeginsAfterClose closes a connection in the pass that has found out that it is to be pinged, or asked,
// or drained.
func TestNoCallbackBeginsAfterClose(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, policy := range map[string]Policy{
		"Ping":      {Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}},
		"OnTimeout": {IdleTimeout: time.Second},
		"OnDrain":   {MaxAge: time.Second, MaxAgeGrace: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onDriver(t, policy, &Options{Shards: 1}, func(r *rig) {
				var called []string
				p, begun, closed := r.with(calling(func(name string) { called = append(called, name) })), false, false
				r.inPass(&p.Conn, func() {
					begun = p.state.Load()&(asking|telling|pinging) != 0
					closed = p.Stop()
				})
				r.wait(10 * time.Second)
				if !begun || !closed || slices.Contains(called, name) {
					r.Errorf("decided: %v, closed: %v, called %v", begun, closed, called)
				}
			})
		})
	}
}

// TestGoexitInOnEnd ends the goroutines of OnEnd. Expire follows all the same.
func TestGoexitInOnEnd(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		var all []*peer
		for range 100 {
			all = append(all, r.with(&peer{onEnd: runtime.Goexit}))
		}
		r.wait(time.Minute)
		for i := range all {
			if n := len(all[i].expired); n != 1 {
				r.Fatalf("%d of %d was expired %d times", i, len(all), n)
			}
		}
	})
}

// TestCloseAfterGoexitOfLoop closes the shard of a loop that has ended in the middle of a pass.
func TestCloseAfterGoexitOfLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		r.with(&peer{onEnd: runtime.Goexit})
		other, calm := r.peer(), r.phaseOf(Policy{IdleTimeout: time.Hour})
		r.do(func() { other.Enter(calm) })
		r.wait(2 * time.Second)
		live, err := r.shard.Close()
		if err != nil || len(live) != 1 {
			r.Errorf("%v, %v", live, err)
		}
		r.shard = nil
	})
}
