package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A calm is what an almost idle server costs: many connections, and so few messages
// that what wakes the server up besides counts. CPU ratios are of the time a message,
// which is the same as a second because all variants get the same messages.
type calm struct {
	Rate     int       `json:"messages_per_s"` // in all
	Variants []measure `json:"variants"`
}

// idleConns is how many connections an almost idle server has.
const idleConns = 3000

// rates are the values of -rates.
type rates []int

func (r *rates) String() string {
	var all []string
	for _, rate := range *r {
		all = append(all, strconv.Itoa(rate))
	}
	return strings.Join(all, ",")
}

// Set sets the rates. checkIdle looks whether they are within bounds.
func (r *rates) Set(s string) error {
	*r = nil
	for field := range strings.SplitSeq(s, ",") {
		rate, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("%q is not a number; it must be numbers with commas between them", field)
		}
		*r = append(*r, rate)
	}
	return nil
}

// checkIdle checks the flags of almost idle servers. A round must end before a
// connection that gets no message has been silent for noTimeout.
func (c *config) checkIdle() error {
	if c.server != "all" && !crowded(c.server) {
		return fmt.Errorf("-server is %s; with -idle it must be one of %s, or all", c.server, strings.Join(crowdedKinds(), ", "))
	}
	err := program.Within("idle", c.idle, 100*time.Millisecond, time.Minute, "")
	for _, rate := range c.rates {
		err = cmp.Or(err, program.Within("rates", rate, 10, 20_000, " each"))
	}
	return err
}

// idling returns the configuration of a comparison of almost idle servers.
func (c config) idling(rate int) config {
	c.conns, c.rounds, c.duration, c.pace = idleConns, c.longRounds(), c.idle, rate
	return c
}

// compareIdle compares the variants of a server at each rate.
func compareIdle(ctx context.Context, kind string, core int, cfg config, bar *progress.Progress) (result, error) {
	all := result{Server: kind, Conns: idleConns, Rounds: cfg.longRounds()}
	for _, rate := range cfg.rates {
		r, err := compare(ctx, kind, core, cfg.idling(rate), bar)
		if err != nil {
			return all, fmt.Errorf("%d messages a second: %w", rate, err)
		}
		all.Idle = append(all.Idle, calm{rate, r.Variants})
	}
	return all, nil
}

// cpuPerS returns the CPU time of a second, in ms.
func (m measure) cpuPerS() float64 {
	return m.CPUPerOp.Median * m.OpsPerS.Median * float64(time.Nanosecond) / float64(time.Millisecond)
}

// writeIdle writes the table of an almost idle server.
func (r result) writeIdle(w io.Writer) {
	t := table.Table{
		Title:   fmt.Sprintf("%s, almost idle: CPU time of the server a second; %s connections, rounds: %d", r.Server, table.Group(r.Conns), r.Rounds),
		Columns: []string{"msg/s", "", "ms/s", "of bare (95 %)", "of own (95 %)", "switches/s"},
		Left:    2,
	}
	for _, c := range r.Idle {
		rate := table.Group(c.Rate)
		for _, v := range c.Variants {
			t.Add(rate, v.Name, table.Figure(v.cpuPerS()), ratioText(v.CPURatioToBare, v.CPURatioToBare95),
				ratioText(v.CPURatioToOwn, v.CPURatioToOwn95), table.Group(int(v.SwitchesPerS.Median)))
			rate = ""
		}
	}
	t.Write(w)
	fmt.Fprintln(w)
}
