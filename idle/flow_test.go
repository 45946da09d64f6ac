package idle

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// at returns the stamp of a tick.
func at(tick int64) clock.Stamp { return clock.StampOf(tick) }

// TestAwaitPaysBeforeItWaits looks at a flow while its waits begin and end, in
// the order in which Conn.next looks. All time is spent in pauses, and paid for,
// so when a wait is seen all time until its beginning must be paid.
func TestAwaitPaysBeforeItWaits(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("needs two processors")
	}
	var f flow
	f.begin(at(1), at(1), at(1).Start())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := int64(1); ; tick++ { // it must not come around meanwhile
			stamp := at(tick)
			select {
			case <-stop:
				return
			default:
				f.await(stamp, stamp.Start())
				f.pause(stamp, stamp.Start())
			}
		}
	}()
	bad := 0
	for begun := time.Now(); time.Since(begun) < raceTime()/4; {
		w := f.wait.Load()
		paid := f.paid.Load().Bits()
		if w&waiting != 0 && ago(w, paid) < 0 {
			bad++
		}
	}
	close(stop)
	<-stopped
	if bad > 0 {
		t.Errorf("%d times a wait was seen of which the pause before was not paid", bad)
	}
}

// TestEnterStoresThePhaseLast looks at a connection while it enters phases, in
// the order in which Conn.next looks: by a phase that is seen, all its limits
// must have begun.
func TestEnterStoresThePhaseLast(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("needs two processors")
	}
	phaseAt := func(tick uint32) *Phase { return &Phase{soonest: tick} }
	var c Conn
	enter := func(tick uint32) {
		p := phaseAt(tick)
		c.begin(p, at(int64(tick)))
		c.phase.Store(p)
	}
	enter(1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for stamp := uint32(2); ; stamp++ {
			select {
			case <-stop:
				return
			default:
				enter(stamp)
			}
		}
	}()
	bad := 0
	for begun := time.Now(); time.Since(begun) < raceTime()/4; {
		entered := c.phase.Load().soonest
		wait, paid := c.in.wait.Load(), c.in.paid.Load().Bits()
		for _, stamp := range []uint32{c.in.stamp.Load().Bits(), c.out.stamp.Load().Bits(), c.beat.Load().Bits(), c.began.Load().Bits(), c.pinged.Load().Bits(), wait >> 1, paid} {
			if stamp < entered {
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

// TestRestartTakesBackNothing restarts limits from a stamp that is older than what
// began meanwhile, as when the restart is preempted.
func TestRestartTakesBackNothing(t *testing.T) {
	var f flow
	f.begin(at(1), at(1), at(1).Start())
	f.await(at(9), at(9).Start())
	f.paid.Add(ticks(2))
	wait, paid := f.wait.Load(), f.paid.Load()
	f.rewait(at(5))
	f.repay(at(5).Start())
	if f.wait.Load() != wait || f.paid.Load() != paid {
		t.Errorf("the wait began at %d, and %d is paid; they did at %d, and %d was", f.wait.Load()>>1, f.paid.Load().Bits(), wait>>1, paid.Bits())
	}
}

// TestSince checks distances between stamps of 31 bits, across the wrap.
func TestSince(t *testing.T) {
	for _, w := range []uint32{0, 5, 1<<31 - 3, 1 << 31, 1<<32 - 2} {
		for _, d := range []int32{0, 1, 7, 1<<30 - 1, -1, -7, -(1 << 29)} {
			for _, bit := range []uint32{0, waiting} {
				if got := ago(w<<1|bit, w+uint32(d)); got != d {
					t.Errorf("since(%d, %d) = %d, want %d", w, w+uint32(d), got, d)
				}
			}
		}
	}
}

// TestPerByteIsInFavourOfTheSender checks that who sends exactly the least rate
// pays for all time.
func TestPerByteIsInFavourOfTheSender(t *testing.T) {
	for _, tick := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 10 * time.Millisecond, time.Second} {
		for _, bytes := range []int{1, 3, 7, 240, 1000, 999_983} {
			got := float64(perByte(Rate{BytesPerSecond: bytes}, tick)) * float64(bytes) / (1 << 32)
			want := float64(time.Second) / float64(tick)
			if got < want || got > want*1.001 {
				t.Errorf("a second of %d bytes pays %v ticks of %v, want %v", bytes, got, tick, want)
			}
		}
	}
}

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
