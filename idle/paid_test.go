package idle

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// meet calls a and b at the same time, again and again. Before each round it calls begin,
// and after it check.
func meet(begin, a, b, check func()) (rounds int) {
	var round, done atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for n := int64(1); ; n++ {
			for r := round.Load(); r != n; r = round.Load() {
				if r < 0 {
					return
				}
			}
			b()
			done.Store(n)
		}
	}()
	for until := time.Now().Add(raceTime()); time.Now().Before(until); {
		for range 100 {
			rounds++
			begin()
			round.Store(int64(rounds))
			a()
			for done.Load() != int64(rounds) {
			}
			check()
		}
	}
	round.Store(-1)
	<-stopped
	return rounds
}

// TestPauseIsPaidForOnce has a wait begin after a long pause, while another goroutine
// enters a phase or lets the pause off. Whoever comes first, no time in the future may be
// paid for: that would make ReadTotal and the minimum rates late by as much.
func TestPauseIsPaidForOnce(t *testing.T) {
	now := clock.StampOf(1_000_000)
	at := now.Start
	var f flow
	for name, other := range map[string]func(){
		"begin":   func() { f.begin(now, now, at()); f.settle(now, at) },
		"letOff":  func() { f.letOff(at) },
		"refresh": func() { f.refresh(clock.StampOf(500_000)) },
	} {
		t.Run(name, func(t *testing.T) {
			ahead := 0
			begin := func() {
				f.wait.Store(1 << 1)
				f.paid.Store(clock.StartOf(1))
			}
			check := func() {
				if f.paid.Load().Sub(at()) > 0 {
					ahead++
				}
			}
			if rounds := meet(begin, func() { f.await(now, at()) }, other, check); ahead > 0 {
				t.Errorf("in %d of %d rounds time in the future was paid for", ahead, rounds)
			}
		})
	}
}

// TestBytesPayForTheirPhase has bytes arrive while a phase with a ReadTotal is entered.
// They must not make that later.
func TestBytesPayForTheirPhase(t *testing.T) {
	tr, err := New(Policy{MinReadRate: Rate{1, time.Hour}}, &Options{Tick: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	whole, err := tr.Phase(Policy{ReadTotal: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var p peer
	if err := tr.Track(&p.Conn, &p, hooksOf(&p)); err != nil {
		t.Fatal(err)
	}
	ahead := 0
	check := func() {
		if p.in.paid.Load().Sub(tr.clock.Instant()) > ticks(2) {
			ahead++
		}
	}
	if rounds := meet(func() { p.Enter(tr.phase) }, func() { p.Received(1000) }, func() { p.Enter(whole) }, check); ahead > 0 {
		t.Errorf("in %d of %d rounds time in the future was paid for", ahead, rounds)
	}
}
