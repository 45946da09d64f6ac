package main

import (
	"slices"
	"sync/atomic"
	"time"
)

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
	early    int
	earliest time.Duration   // by how much
	lost     int             // never expired
	late     []time.Duration // of all that expired, ascending, and negative if early
}

func (l *ledger) judge() verdict {
	var v verdict
	v.late = make([]time.Duration, 0, len(l.expired))
	for i := range l.expired {
		at := l.expired[i].Load()
		if at == 0 {
			v.lost++
			continue
		}
		late := time.Duration(at-l.active[i].Load()) - l.timeout
		if late < 0 {
			v.early++
			v.earliest = max(v.earliest, -late)
		}
		v.late = append(v.late, late)
	}
	slices.Sort(v.late)
	return v
}

// at returns the lateness that a share, from 0 to 1, of the expired does not
// exceed.
func (v verdict) at(share float64) time.Duration {
	if len(v.late) == 0 {
		return 0
	}
	return v.late[min(int(share*float64(len(v.late))), len(v.late)-1)]
}
