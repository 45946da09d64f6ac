package main

import (
	"fmt"
	"math"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/sample"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// What going stale costs, and how well it is noticed: all connections are armed
// and touched once more, and then are silent for good. The cost is that from
// the last touch to the last expiry.

// lateShares are the shares of connections for which an outcome tells how late
// they were at most.
func lateShares() []float64 {
	return []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1}
}

const busyStep = 100 * time.Millisecond

func staleSpread(s scale) workload {
	name := "stale-spread"
	what := fmt.Sprintf("%s going stale over %v: ", short(s.Crowd), s.Spread)
	return workload{
		name: name, conns: s.Crowd, slow: true, stretches: true, measures: staleMeasures(name, what),
		run: func(t turn) (outcome, error) {
			// Who has fewer connections has them at the same rate.
			share := float64(t.conns) / float64(t.scale.Crowd)
			return runStale(t, name, t.scale.SpreadStale, time.Duration(share*float64(t.scale.Spread)))
		},
	}
}

func staleAtOnce(s scale) workload {
	name := "stale-at-once"
	what := short(s.Crowd) + " going stale at once, as fast as they can be touched: "
	return workload{
		name: name, conns: s.Crowd, slow: true, stretches: true, measures: staleMeasures(name, what),
		run: func(t turn) (outcome, error) {
			return runStale(t, name, t.scale.OnceStale, 0)
		},
	}
}

func staleMeasures(name, what string) []measure {
	return []measure{
		{name + "-cpu", what + "CPU time for each", "µs"},
		{name + "-late-p50", what + "lateness, median", "ms"},
		{name + "-late-p99", what + "lateness, 99th percentile", "ms"},
		{name + "-late-max", what + "lateness, greatest", "ms"},
	}
}

func runStale(t turn, name string, timeout, spread time.Duration) (outcome, error) {
	l := newLedger(t.conns, timeout)
	c, err := t.kind.New(timeout, l.expire)
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	if err := c.Open(t.conns); err != nil {
		return outcome{}, err
	}
	for i := range t.conns {
		l.touch(i)
		if err := c.Arm(i); err != nil {
			return outcome{}, fmt.Errorf("arming connection %d of %d: %w", i+1, t.conns, err)
		}
	}
	touchOver(c, l, spread)
	before := usage.Self()
	stop := sample.Every(busyStep, read)
	l.await(t.scale.Patience)
	used := usage.Self().Since(before)
	return staleOutcome(name, t.conns, used, l.judge(), busy(stop())), nil
}

// touchOver touches each connection once, evenly over a while.
func touchOver(c contender.Contender, l *ledger, while time.Duration) {
	const pace = time.Millisecond
	begun, n := time.Now(), len(l.active)
	for done := 0; done < n; {
		due := n
		if gone := time.Since(begun); gone < while {
			due = int(float64(n) * float64(gone) / float64(while))
		}
		for ; done < due; done++ {
			if l.touch(done) {
				c.Touch([]uint32{uint32(done)})
			}
		}
		if done < n {
			time.Sleep(pace)
		}
	}
}

func staleOutcome(name string, n int, used usage.Usage, v verdict, busy []busyPoint) outcome {
	o := outcome{Values: map[string]float64{
		name + "-late-p50": millis(v.at(0.5)),
		name + "-late-p99": millis(v.at(0.99)),
		name + "-late-max": millis(v.at(1)),
	}, Early: v.early, Lost: v.lost, Busy: busy}
	if used.Known {
		o.Values[name+"-cpu"] = micros(used.CPU) / float64(n)
	} else {
		o.missing(name+"-cpu", "CPU time is "+machine.Unknown)
	}
	if v.early > 0 {
		o.Note = fmt.Sprintf("early by up to %.3g ms", millis(v.earliest))
	}
	if len(v.late) == 0 {
		return outcome{Missing: map[string]string{"": "none of them expired"}, Lost: v.lost}
	}
	for _, share := range lateShares() {
		o.Late = append(o.Late, millis(v.at(share)))
	}
	return o
}

// A busyPoint is the share of a core that was used until a moment, in seconds,
// since the point before.
type busyPoint struct {
	At    float64 `json:"at"`
	Share float64 `json:"share"`
}

// A reading is what this process has used until a moment.
type reading struct {
	at   time.Time
	used usage.Usage
}

func read() reading { return reading{time.Now(), usage.Self()} }

// busy returns which share of a core was used, step by step.
func busy(readings []reading) (points []busyPoint) {
	last := readings[0]
	for _, r := range readings[1:] {
		step, used := r.at.Sub(last.at), r.used.Since(last.used)
		if step < busyStep/2 { // the readings were kept waiting, so they come in a bunch
			continue
		}
		if used.Known {
			points = append(points, busyPoint{r.at.Sub(readings[0].at).Seconds(), used.CPU.Seconds() / step.Seconds()})
		}
		last = r
	}
	return points
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func micros(d time.Duration) float64 { return math.Round(float64(d)) / float64(time.Microsecond) }
