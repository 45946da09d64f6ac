package idle

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A capture is a slog handler that keeps the records.
type capture struct {
	slog.Handler
	records []map[string]string
}

func (c *capture) Enabled(context.Context, slog.Level) bool { return true }

func (c *capture) Handle(_ context.Context, rec slog.Record) error {
	got := map[string]string{"level": rec.Level.String()}
	rec.Attrs(func(a slog.Attr) bool { got[a.Key] = a.Value.String(); return true })
	c.records = append(c.records, got)
	return nil
}

// A panicker panics in the named callback.
type panicker struct {
	peer
	in     string
	mu     sync.Mutex
	called []string
}

func (p *panicker) call(name string) {
	p.mu.Lock()
	p.called = append(p.called, name)
	p.mu.Unlock()
	if p.in == name {
		panic("in " + name)
	}
}

func (p *panicker) Expire(err *TimeoutError)     { p.peer.Expire(err); p.call("Expire") }
func (p *panicker) Ping() error                  { p.call("Ping"); return nil }
func (p *panicker) OnTimeout(*TimeoutError) bool { p.call("OnTimeout"); return false }
func (p *panicker) Examine() SocketState         { p.call("Probe"); return SocketState{} }
func (p *panicker) OnDrain()                     { p.call("OnDrain") }

// TestPanicsAreReportedAndHarmless has all callbacks called, and another peer
// live a normal life beside.
func TestPanicsAreReportedAndHarmless(t *testing.T) {
	policy := Policy{
		ReadTimeout: 5 * time.Second, MaxAge: 3 * time.Second, MaxAgeGrace: time.Hour,
		Heartbeat: Heartbeat{Interval: 2 * time.Second, Timeout: time.Hour},
	}
	first := []string{"Ping", "OnDrain", "Probe", "OnTimeout"}
	all := append(first, "Expire")
	for _, in := range slices.Compact(slices.Sorted(slices.Values(all))) {
		t.Run(in, func(t *testing.T) {
			log := &capture{}
			onBoth(t, policy, &Options{Shards: 1, Logger: slog.New(log)}, func(r *rig) {
				*log = capture{}
				p, q, born := &panicker{in: in}, &panicker{}, time.Now()
				r.track(&p.Conn, p)
				r.track(&q.Conn, q)
				r.dies(&q.peer, born, 5*time.Second, ReasonRead)
				r.dies(&p.peer, born, 5*time.Second, ReasonRead)
				r.wait(2 * time.Second)
				if !slices.Equal(p.called, all) || !slices.Equal(q.called, all) {
					r.Errorf("called %v and %v, want %v", p.called, q.called, all)
				}
				times := 0
				for _, name := range all {
					if name == in {
						times++
					}
				}
				if n := r.Stats().Panics; n != uint64(times) || len(log.records) != times {
					r.Fatalf("%d panics, log %v", n, log.records)
				}
				rec := log.records[0]
				if rec["level"] != "ERROR" || rec["callback"] != in || rec["panic"] != "in "+in || rec["stack"] == "" {
					r.Errorf("logged %v", rec)
				}
			})
		})
	}
}

// inPass has stop be called in the pass that checks c, after that. One
// processor has the goroutines that the pass starts wait until it's over.
func (r *rig) inPass(c *Conn, stop func()) {
	s := &pingedStaller{staller{stall: stop}}
	r.track(&s.Conn, s)
	in := c.placed.Load().Sub(clock.StampOf(r.clock.Now())) - 1
	s.Enter(r.phaseOf(Policy{IdleTimeout: time.Duration(in) * r.opts.Tick}))
}

type pingedStaller struct{ staller }

func (*pingedStaller) Ping() error { return nil }

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
				p, begun, closed := &panicker{}, false, false
				r.track(&p.Conn, p)
				r.inPass(&p.Conn, func() {
					begun = p.state.Load()&(asking|telling|pinging) != 0
					closed = p.Stop()
				})
				r.wait(10 * time.Second)
				if !begun || !closed || slices.Contains(p.called, name) {
					r.Errorf("decided: %v, closed: %v, called %v", begun, closed, p.called)
				}
			})
		})
	}
}

// A quitter ends the goroutine of a callback, as a failing test in it does.
type quitter struct{ peer }

func (*quitter) OnEnd(*TimeoutError) { runtime.Goexit() }

// TestGoexitInOnEnd ends the goroutines of OnEnd. Expire follows all the same.
func TestGoexitInOnEnd(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		all := make([]quitter, 100)
		for i := range all {
			r.track(&all[i].Conn, &all[i])
		}
		r.wait(time.Minute)
		for i := range all {
			if n := len(all[i].expired); n != 1 {
				r.Fatalf("%d of %d was expired %d times", i, len(all), n)
			}
		}
	})
}

// TestGoexitInOnEnds ends the goroutine that reports.
func TestGoexitInOnEnds(t *testing.T) {
	told := 0
	onEnds := func(all []End) {
		told += len(all)
		runtime.Goexit()
	}
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{OnEnds: onEnds}, func(r *rig) {
		for range 3 {
			r.peer()
			r.wait(time.Minute)
		}
		if told != 3 {
			r.Errorf("%d ends were told, want 3", told)
		}
	})
}

// A loopQuitter ends the goroutine of OnEnd, which is a loop's.
type loopQuitter struct{ peer }

func (p *loopQuitter) OnEnd(*TimeoutError) { runtime.Goexit() }

// TestCloseAfterGoexitOfLoop closes the shard of a loop that has ended in the middle of a pass.
func TestCloseAfterGoexitOfLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		p, other := &loopQuitter{}, &peer{}
		calm := r.phaseOf(Policy{IdleTimeout: time.Hour})
		r.track(&p.Conn, p)
		r.track(&other.Conn, other)
		r.do(func() { other.Enter(calm) })
		r.wait(2 * time.Second)
		live, err := r.shard.Close()
		if err != nil || len(live) != 1 {
			r.Errorf("%v, %v", live, err)
		}
		r.shard = nil
	})
}
