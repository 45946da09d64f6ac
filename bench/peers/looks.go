package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// Looks show what idlewheel is about: how often a connection is looked at, and
// perhaps placed anew, depends on its timeout and not on its activities. All
// others move a timer, or note a time, with each of these.

const (
	looksConns    = 1_000
	looksTimeouts = 10 // how many the run is long
)

func looks() []workload {
	var all []workload
	for _, perTimeout := range []int{3, 30, 1000} {
		name := fmt.Sprintf("looks-at-%d", perTimeout)
		all = append(all, workload{
			name: name, conns: looksConns, only: "idlewheel", slow: true,
			measures: []measure{{name, fmt.Sprintf("looks at a connection per timeout, active %d times in it", perTimeout), "looks"}},
			run:      func(t turn) (outcome, error) { return runLooks(t, name, perTimeout) },
		})
	}
	return all
}

func runLooks(t turn, name string, perTimeout int) (outcome, error) {
	timeout := t.scale.LooksTimeout
	var ended atomic.Int64
	c, err := t.armed(timeout, func(int) { ended.Add(1) })
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	list := make([]uint32, t.conns)
	for i := range list {
		list[i] = uint32(i)
	}
	begun, touched := time.Now(), 0
	for time.Since(begun) < looksTimeouts*timeout {
		time.Sleep(time.Until(begun.Add(time.Duration(touched) * timeout / time.Duration(perTimeout))))
		c.Touch(list)
		touched++
	}
	timeouts := float64(time.Since(begun)) / float64(timeout)
	st, ok := contender.StatsOf(c)
	if !ok {
		return outcome{}, fmt.Errorf("%s does not count looks", t.kind.Name)
	}
	o := newOutcome(name, float64(st.Looks)/timeouts/float64(t.conns))
	o.Note = fmt.Sprintf("%.0f touches per timeout, %d relinks in all", float64(touched)/timeouts, st.Relinks)
	if n := ended.Load(); n > 0 { // the touches did not come in time
		return nothing(fmt.Sprintf("the machine was too busy: %d connections were not active for %v", n, timeout)), nil
	}
	return o, nil
}
