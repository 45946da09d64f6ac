package main

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// What going stale costs, and how well it is noticed: all connections are armed
// and touched once more, and then are silent for good. The cost is that from
// the last touch to the last expiry.

func staleSpread(s scale) workload {
	return stale("stale-spread", fmt.Sprintf("%s going stale over %v", short(s.Crowd), s.Spread), s.Crowd, s.SpreadStale, s.Spread)
}

func staleAtOnce(s scale) workload {
	return stale("stale-at-once", short(s.Crowd)+" going stale at once, as fast as they can be touched", s.Crowd, s.OnceStale, 0)
}

func stale(name, what string, crowd int, timeout, spread time.Duration) workload {
	return workload{
		name: name, conns: crowd, stretches: true,
		measures: []measure{
			{name + "-cpu", what + ": CPU time for each", "µs"},
			{name + "-late-p50", what + ": lateness, median", "ms"},
			{name + "-late-p99", what + ": lateness, 99th percentile", "ms"},
			{name + "-late-max", what + ": lateness, greatest", "ms"},
		},
		run: func(t turn) (outcome, error) {
			// Who has fewer connections has them at the same rate.
			share := float64(t.conns) / float64(crowd)
			return runStale(t, name, timeout, time.Duration(share*float64(spread)))
		},
	}
}

func runStale(t turn, name string, timeout, spread time.Duration) (outcome, error) {
	l := newLedger(t.conns, timeout)
	c, err := t.kind.New(t.conns, timeout, l.expire)
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	for i := range t.conns {
		l.touch(i)
		c.Arm(i)
	}
	touchOver(c, l, spread)
	before, known := usage.Self()
	l.await(t.scale.Patience)
	after, _ := usage.Self()
	v := l.judge()
	o := outcome{Early: v.early, Lost: v.lost}
	if len(v.late) == 0 {
		o.Missing = "none of them expired"
		return o, nil
	}
	o.Values = map[string]float64{
		name + "-late-p50": table.Millis(v.at(0.5)),
		name + "-late-p99": table.Millis(v.at(0.99)),
		name + "-late-max": table.Millis(v.at(1)),
	}
	if known {
		o.Values[name+"-cpu"] = float64(after-before) / float64(t.conns) / float64(time.Microsecond)
	} else {
		o.Missing = "CPU time is " + machine.Unknown
	}
	if v.early > 0 {
		o.Note = fmt.Sprintf("early by up to %.3g ms", table.Millis(-v.late[0]))
	}
	return o, nil
}

// touchOver touches each connection once, evenly over a while.
func touchOver(c contender.Contender, l *ledger, while time.Duration) {
	begun, n := time.Now(), len(l.active)
	for done := 0; done < n; time.Sleep(time.Millisecond) {
		due := n
		if gone := time.Since(begun); gone < while {
			due = int(float64(n) * float64(gone) / float64(while))
		}
		for ; done < due; done++ {
			if l.touch(done) {
				c.Touch([]uint32{uint32(done)})
			}
		}
	}
}

// A ledger knows when each connection was last active, and when it expired. It
// is what a contender is held against.
type ledger struct {
	start   time.Time
	timeout time.Duration
	active  []atomic.Int64 // since start; noted before the contender is told, so early is early
	expired []atomic.Int64 // since start; 0 if it has not
	count   atomic.Int64
	all     chan struct{} // closed when all have expired
}

func newLedger(n int, timeout time.Duration) *ledger {
	return &ledger{
		start: time.Now(), timeout: timeout,
		active: make([]atomic.Int64, n), expired: make([]atomic.Int64, n),
		all: make(chan struct{}),
	}
}

// touch notes that a connection is active, and reports whether it still can be.
func (l *ledger) touch(i int) bool {
	if l.expired[i].Load() != 0 {
		return false
	}
	l.active[i].Store(int64(time.Since(l.start)))
	return true
}

// expire is what contenders call.
func (l *ledger) expire(i int) {
	if !l.expired[i].CompareAndSwap(0, int64(time.Since(l.start))) {
		return
	}
	if l.count.Add(1) == int64(len(l.expired)) {
		close(l.all)
	}
}

// await returns when all have expired, or nothing has for a while after the
// last was due. It sleeps meanwhile, as its CPU time would be the contender's.
func (l *ledger) await(patience time.Duration) {
	timer := time.NewTimer(l.timeout + patience)
	defer timer.Stop()
	seen := l.count.Load()
	for {
		select {
		case <-l.all:
			return
		case <-timer.C:
		}
		n := l.count.Load()
		if n == seen {
			return
		}
		seen = n
		timer.Reset(patience)
	}
}

// verdict is what a ledger finds.
type verdict struct {
	early int
	lost  int             // never expired
	late  []time.Duration // of all that expired, ascending, and negative if early
}

func (l *ledger) judge() verdict {
	v := verdict{late: make([]time.Duration, 0, len(l.expired))}
	for i := range l.expired {
		at := l.expired[i].Load()
		if at == 0 {
			v.lost++
			continue
		}
		late := time.Duration(at-l.active[i].Load()) - l.timeout
		if late < 0 {
			v.early++
		}
		v.late = append(v.late, late)
	}
	slices.Sort(v.late)
	return v
}

// at returns the lateness that a share, from 0 to 1, of the expired does not
// exceed. There must be one.
func (v verdict) at(share float64) time.Duration {
	return v.late[min(int(share*float64(len(v.late))), len(v.late)-1)]
}
