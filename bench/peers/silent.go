package main

import (
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// silent is what connections cost that do nothing at all.
func silent(s scale) workload {
	what := fmt.Sprintf("%s silent for %v: ", short(s.Crowd), s.Silence)
	return workload{
		name: "silent", conns: s.Crowd, slow: true,
		measures: []measure{
			{"silent-cpu", what + "CPU time", "ms"},
			{"silent-wakeups", what + "times that the process woke up", "times"},
		},
		run: runSilent,
	}
}

func runSilent(t turn) (outcome, error) {
	if !usage.Self().Known {
		return nothing("CPU time is " + machine.Unknown), nil
	}
	return t.steady(func(c contender.Contender) (outcome, error) {
		time.Sleep(t.scale.Settle)
		counted, _ := contender.StatsOf(c)
		before := usage.Self()
		time.Sleep(t.scale.Silence)
		used := usage.Self().Since(before)
		o := newOutcome("silent-cpu", millis(used.CPU))
		o.Values["silent-wakeups"] = float64(used.Wakeups)
		if now, ok := contender.StatsOf(c); ok {
			o.Note = fmt.Sprintf("%d passes, %d looks", now.Passes-counted.Passes, now.Looks-counted.Looks)
		}
		return o, nil
	})
}
