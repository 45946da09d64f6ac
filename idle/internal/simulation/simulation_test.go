package simulation

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"

	"github.com/idlewheel/idlewheel/idle"
)

var (
	simSeed  = flag.Int64("seed", -1, "the one world that the simulation runs; all by default")
	simSteps = flag.Int("steps", 0, "how many events there are in a world of the simulation; 2000 by default, 1000 with -short")
	simMany  = flag.Int64("worlds", 96, "how many worlds the simulation runs")
	simFrom  = flag.Int64("from", 0, "the first of them")
	simWhole = flag.Bool("whole", false, "leave out nothing of a world in which something is wrong")
	simOnly  = flag.String("only", "", "the events of the trace that happen, such as 3,17,42; all by default")
)

// TestSimulation plays random connections under random policies, in virtual
// time, against the ledger. Each world is made of its seed alone:
//
//	go test ./idle/internal/simulation -run Simulation -args -seed N -steps M
//
// and -worlds 1000 -from 5000 plays others.
//
// Worlds with an odd seed stall: the process stands still, in the midst of
// callbacks or altogether. There timeouts may be late, and only then; never
// early. A world in which something is wrong is played again with ever fewer
// events, until all that are left are needed; that trace is printed.
func TestSimulation(t *testing.T) {
	steps, worlds := *simSteps, *simMany
	if testing.Short() {
		worlds /= 2
	}
	switch {
	case steps > 0:
	case testing.Short():
		steps = 1000
	default:
		steps = 2000
	}
	begun, sum := time.Now(), map[string]uint64{}
	add := func(t *testing.T, seed int64) {
		for what, n := range simulate(t, seed, steps) {
			sum[what] += n
		}
	}
	if *simSeed >= 0 {
		add(t, *simSeed)
	} else {
		for seed := *simFrom; seed < *simFrom+worlds; seed++ {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { add(t, seed) })
		}
	}
	t.Logf("%.0f steps a second: %v", float64(sum["steps"])/time.Since(begun).Seconds(), sum)
}

func simulate(t *testing.T, seed int64, steps int) map[string]uint64 {
	trace := only(t, traceOf(seed, steps), *simOnly)
	faults, sum := playTrace(t, seed, trace, nil)
	if len(faults) == 0 {
		return sum
	}
	t.Errorf("%s", faults[0].text)
	t.Logf("replay: go test ./idle/internal/simulation -run Simulation -args -seed %d -steps %d", seed, steps)
	if *simWhole {
		return sum
	}
	kind := faults[0].kind
	short := shrink(trace, func(some []happening) bool {
		faults, _ := playTrace(t, seed, some, nil)
		return len(faults) > 0 && faults[0].kind == kind
	})
	report(t, seed, steps, short)
	return sum
}

// report prints a trace that shows a fault, and how to play it.
func report(t *testing.T, seed int64, steps int, trace []happening) {
	var lines, indexes []string
	for _, h := range trace {
		lines = append(lines, h.String())
		indexes = append(indexes, strconv.Itoa(h.index))
	}
	faults, _ := playTrace(t, seed, trace, nil)
	if len(faults) == 0 {
		t.Logf("it does not fail each time that it is played")
	} else {
		t.Logf("of the trace, these %d events are enough for: %s", len(trace), faults[0].text)
	}
	t.Logf("\n%s", strings.Join(lines, "\n"))
	t.Logf("replay: go test ./idle/internal/simulation -run Simulation -args -seed %d -steps %d -only %s", seed, steps, strings.Join(indexes, ","))
}

// only returns the events that the flag names.
func only(t *testing.T, trace []happening, list string) (some []happening) {
	if list == "" {
		return trace
	}
	for s := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 || i >= len(trace) {
			t.Fatalf("-only %s: there is no event %q", list, s)
		}
		some = append(some, trace[i])
	}
	return some
}

// playTrace plays a trace until something is wrong. The ledger is told what lie
// makes of the policies, if it is not nil.
func playTrace(t *testing.T, seed int64, trace []happening, lie func(idle.Policy) idle.Policy) (faults []fault, happened map[string]uint64) {
	synctest.Test(t, func(t *testing.T) {
		w, steps := newWorld(t, seed, lie), uint64(0)
		for _, h := range trace {
			if w.failed() {
				break
			}
			w.play(h)
			steps++
		}
		w.finish()
		faults, happened = w.faults, w.happened
		happened["steps"], happened["tracked"], happened["refused"] = steps, w.tracked, w.capacity.refused
		happened["deferred"] = w.tracker.Stats().Deferred
		for r, n := range w.timedOut {
			happened[idle.Reason(r).String()] += n
		}
	})
	return faults, happened
}

// finish ends the world and makes up the balance.
func (w *world) finish() {
	if !w.abrupt {
		w.mu.Lock()
		w.quiet = true
		w.mu.Unlock()
		w.unblockAll()
		w.beStill()
		time.Sleep(time.Minute) // let nothing be under way
		slack := w.tick / clock.SlackShare
		if time.Since(w.start)%slack == 0 {
			time.Sleep(slack / 2)
		}
		synctest.Wait()
	}
	w.mu.Lock()
	if !w.abrupt {
		w.checkAll()
	}
	w.quiet, w.closing, w.closedAt = true, true, w.now()
	close(w.ending)
	w.mu.Unlock()
	w.awaitVisits()
	if w.retires() {
		w.retire()
	}
	left := w.tracker.Stats().Live
	var live []any
	closeTracker := func() {
		owned, err := w.tracker.Close()
		if err != nil && !(err == idle.ErrClosed && w.retires()) {
			w.errorf("Close: %v", err)
		}
		live = append(live, w.handed(owned)...)
	}
	first := w.abrupt && w.seed/2%2 == 0 // while a loop is blocked, maybe
	if first {
		closeTracker()
	}
	w.unblockAll()
	for _, h := range w.homes {
		if h.loop != nil {
			h.do(func() {
				owned, err := h.shard.Close()
				if err != nil {
					w.errorf("Close of a shard: %v", err)
				}
				live = append(live, w.handed(owned)...)
			})
		}
	}
	if !first {
		closeTracker()
	}
	if !w.abrupt && uint64(len(live)) != left {
		w.errorf("Close gave back %d connections of %d", len(live), left)
	}
	w.over.Store(true)
	for _, h := range w.homes {
		if h.loop != nil {
			h.loop.stop() // nobody posts any more
		}
	}
	time.Sleep(time.Minute)
	w.balance()
	w.checkEnds()
	w.checkSeen()
	w.checkZero()
}

// handed notes the outcome of what a Close has given back.
func (w *world) handed(owners []any) []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range owners {
		l := o.(*life)
		if !l.live() || l.slot.life != l {
			w.errorf("Close gave back what is not live: %v", l)
		}
		l.closed.Store(true)
		l.hasEnded(0, "", 0)
		w.ends.expected[l.name].handed = true
		w.handedBack++
	}
	return owners
}

// balance holds the counters against what the callbacks and events have seen.
func (w *world) balance() {
	st := w.tracker.Stats()
	timedOut := uint64(0)
	for r, n := range st.TimedOut {
		timedOut += n
		if n != w.timedOut[r] {
			w.errorf("Stats say %d timed out by %v, Expire was called %d times", n, r, w.timedOut[r])
		}
	}
	causes := uint64(0)
	for _, n := range st.Causes {
		causes += n
	}
	if st.Drained != w.timedOut[idle.ReasonDrain] || st.Shed != w.timedOut[idle.ReasonShed] || causes != st.Shed || st.Evicted != w.timedOut[idle.ReasonEvict] ||
		st.Refused != w.capacity.refused {
		w.errorf("Stats say %d drained, %d shed for %d causes, %d refused; it was %v, %+v", st.Drained, st.Shed, causes, st.Refused, w.timedOut, w.capacity)
	}
	if st.Live != 0 || st.Tracked != w.tracked || st.Closed != w.gone || st.HandedBack != w.handedBack ||
		w.tracked != st.Closed+st.HandedBack+timedOut+st.Drained+st.Shed+st.Evicted {
		w.errorf("Stats do not add up: %+v; tracked %d, gone %d, timed out %v", st, w.tracked, w.gone, w.timedOut)
	}
	if st.Pings != w.pings || st.Extended != w.kept || st.Panics != w.panics {
		w.errorf("Stats %+v; pinged %d, kept %d, %d panics", st, w.pings, w.kept, w.panics)
	}
	if st.Deferred < w.happened["late"] {
		w.errorf("%d timeouts were late, but only %d count as deferred", w.happened["late"], st.Deferred)
	}
}

// checkZero looks for what is left once all is closed. That no goroutine is, the
// end of the bubble shows.
func (w *world) checkZero() {
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() {
			w.errorf("neither timed out nor closed nor handed back: %v", l)
		}
		if s.conn.Live() {
			w.errorf("the connection in slot %d is live", s.n)
		}
	}
	for _, e := range w.ends.expected {
		if e.life.leaving {
			w.errorf("OnEnd was called, and Expire wasn't: %v", e.life)
		}
	}
	shards := ownShards(w.tracker)
	for _, h := range w.homes {
		if h.shard != nil {
			shards = append(shards, h.shard)
		}
	}
	for _, s := range shards {
		if n := inWheel(s); n != 0 {
			w.errorf("%d connections are left in a wheel", n)
		}
	}
	if d := w.tracker.Draining(); d != nil {
		w.errorf("a drain is left")
	}
	if d := w.drain; d != nil && !d.isDone() {
		w.errorf("a drain is not done, although the tracker is closed: %+v", d.pace)
	}
}
