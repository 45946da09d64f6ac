// Package batch hands records over in batches, so that nobody who adds one waits for the receiver.
// It doesn't know what the records say.
package batch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
)

const (
	Kept        = 1024    // how many records Recent returns at most
	MostWaiting = 1 << 16 // how many records wait for the receiver at most; others are lost
)

// A Reporter keeps the last records, and hands all of them to a receiver. Its goroutine exists only
// while there are records to report.
type Reporter[R any] struct {
	Running callbacks.Running // the goroutine

	report func([]R)
	every  time.Duration
	stop   <-chan struct{}
	lost   atomic.Uint64
	full   chan struct{} // wakes the goroutine when many are waiting

	mu        sync.Mutex // guards what follows
	ring      []R        // the last ones
	next      uint64     // how many have been kept in ring
	waiting   []R        // to be reported
	reporting bool       // the goroutine exists
}

// New returns a Reporter that collects records for a time before each report, or until stop is
// closed. Report may keep the records until it returns. If it is nil, records are only kept.
func New[R any](every time.Duration, stop <-chan struct{}, report func([]R)) *Reporter[R] {
	return &Reporter[R]{report: report, every: every, stop: stop, full: make(chan struct{}, 1)}
}

// Add adds a record.
func (r *Reporter[R]) Add(one R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring == nil {
		r.ring = make([]R, 0, Kept)
	}
	if len(r.ring) < Kept {
		r.ring = append(r.ring, one)
	} else {
		r.ring[r.next%Kept] = one
	}
	r.next++
	switch {
	case r.report == nil:
		return
	case len(r.waiting) == MostWaiting:
		r.lost.Add(1)
		return
	}
	if r.waiting = append(r.waiting, one); len(r.waiting) == MostWaiting/2 {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
	if !r.reporting {
		r.reporting = true
		r.Running.Begin()
		go r.Running.Run(r.run)
	}
}

// Recent returns the records that are kept, the newest first.
func (r *Reporter[R]) Recent() []R {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]R, len(r.ring))
	for i := range all {
		all[i] = r.ring[(r.next-1-uint64(i))%Kept]
	}
	return all
}

// Lost returns how many records were not reported, because the receiver is too slow.
func (r *Reporter[R]) Lost() uint64 { return r.lost.Load() }

// run is the goroutine.
func (r *Reporter[R]) run() {
	timer := time.NewTimer(r.every)
	defer timer.Stop()
	for buf := []R(nil); ; timer.Reset(r.every) {
		select {
		case <-timer.C:
		case <-r.full:
		case <-r.stop:
		}
		buf = r.take(buf)
		if len(buf) == 0 {
			return
		}
		r.report(buf)
		clear(buf)
	}
}

// take returns the records that wait, and collects later ones in buf. If there are none, the
// goroutine has to end.
func (r *Reporter[R]) take(buf []R) []R {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting
	r.waiting = buf[:0]
	if len(all) == 0 {
		r.waiting, r.reporting = nil, false
	}
	return all
}
