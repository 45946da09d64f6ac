package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// An abuse is what a hostile client does to make a server work.
type abuse struct {
	name   string
	kinds  []string
	unit   string // what it costs is told for each of these
	attack func(m *measurement, v *victim) (units int, err error)
}

var abuses = []abuse{
	{"floods with bytes", []string{server.Net, server.Gnet}, "byte", flood(string(rune(noise)))},
	{"floods with beats of one byte", []string{server.Net, server.Gnet}, "byte", flood(string(rune(beat)))},
	{"floods with pipelined requests", []string{server.HTTP}, "byte", flood(getRequest(13))},
	{"sends one byte at a time", []string{server.Net, server.Gnet, server.HTTP}, "byte", drip},
	{"opens and closes at once", []string{server.Net, server.Gnet, server.HTTP}, "connection", churn},
}

// A measurement is how much is done how often.
type measurement struct {
	rounds             int
	flood, drip, churn int // in a round
}

// Cost measures in rounds what CPU time each abuse costs each server, with
// timeouts and without, in turns. The servers have a core, this process another.
func Cost(ctx context.Context, rounds int, stderr io.Writer, show progress.Flag) (*CostReport, error) {
	return (&measurement{rounds: rounds, flood: 16 << 20, drip: 20_000, churn: 1000}).run(ctx, stderr, show)
}

func (m *measurement) run(ctx context.Context, stderr io.Writer, show progress.Flag) (*CostReport, error) {
	rep := &CostReport{Rounds: m.rounds, Where: here()}
	core, err := child.Allot()
	if err != nil {
		return nil, err
	}
	p := progress.New(stderr, show)
	defer p.Clear()
	for _, a := range abuses {
		for _, kind := range a.kinds {
			what := fmt.Sprintf("a client of idle%s that %s", kind, a.name)
			p.Say("soak: %s", what)
			row, err := m.compare(ctx, a, kind, child.Options{Stderr: stderr, Pinned: true, Core: core})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			rep.Rows = append(rep.Rows, row)
		}
	}
	return rep, nil
}

// abused are limits that an abusive client does not pass.
func abused() Limits {
	const long = 10 * time.Minute
	return Limits{Header: long, Body: long, Write: long, KeepAlive: long, Grace: long, Rate: 1, WriteRate: 1}
}

// compare does an abuse to both variants of a server.
func (m *measurement) compare(ctx context.Context, a abuse, kind string, options child.Options) (row CostRow, err error) {
	var victims []*victim
	for _, variant := range []string{server.Bare, server.Ours} {
		v, err := start(order{Kind: kind, Variant: variant, Limits: abused()}, options, nil)
		if err != nil {
			return row, err
		}
		defer v.Kill()
		victims = append(victims, v)
	}
	costs := make([][]float64, len(victims))     // ns of CPU time for each unit, by round
	for round := -1; round < m.rounds; round++ { // the first one warms up
		for _, i := range rand.Perm(len(victims)) {
			if err := ctx.Err(); err != nil {
				return row, err
			}
			cost, err := m.abuse(a, victims[i])
			if err != nil {
				return row, fmt.Errorf("%s: %w", victims[i].Variant, err)
			}
			if round >= 0 {
				costs[i] = append(costs[i], cost)
			}
		}
	}
	return newCostRow(a, kind, costs[0], costs[1]), nil
}

// settleTime is how long after an abuse the server is given to finish its work. A
// machine that is so busy that it has not let the server run gets it often.
const settleTime, settleTries = 50 * time.Millisecond, 100

// abuse returns the CPU time, in ns, that a unit of an abuse costs a victim.
func (m *measurement) abuse(a abuse, v *victim) (float64, error) {
	before, err := usage.CPU(v.Pid())
	if err != nil {
		return 0, err
	}
	n, err := a.attack(m, v)
	if err != nil {
		return 0, err
	}
	for range settleTries {
		time.Sleep(settleTime)
		after, err := usage.CPU(v.Pid())
		if err != nil || after > before {
			return float64(after-before) / float64(n), err
		}
	}
	return 0, fmt.Errorf("it did not run within %v", settleTries*settleTime)
}

// flood sends messages, as many as the server takes, in large writes.
func flood(message string) func(*measurement, *victim) (int, error) {
	return func(m *measurement, v *victim) (int, error) {
		batch := bytes.Repeat([]byte(message), 64<<10/len(message))
		n := m.flood / len(batch)
		if v.Kind == server.HTTP {
			n /= 8 // a request is more work than as many beats
		}
		c, err := v.connect()
		if err != nil {
			return 0, err
		}
		defer c.Close()
		for range n {
			if _, err := c.Write(batch); err != nil {
				return 0, err
			}
		}
		return n * len(batch), c.finish(v.Kind)
	}
}

// drip sends byte by byte, on many connections in turns, so that the server reads
// each by itself: what comes close together it would read at once.
func drip(m *measurement, v *victim) (int, error) {
	const conns = 100
	prefix, bytes := "", string(rune(beat))
	if v.Kind == server.HTTP {
		prefix, bytes = "GET /13 HTTP/1.1\r\n", "Hostile: "+strings.Repeat("x", 40)+"\r\n"
	}
	var all []*dump
	for range conns {
		c, err := v.connect()
		if err != nil {
			return 0, err
		}
		defer c.Close()
		if _, err := io.WriteString(c, prefix); err != nil {
			return 0, err
		}
		all = append(all, c)
	}
	each := max(1, m.drip/conns)
	for i := range each {
		for _, c := range all {
			if _, err := io.WriteString(c, bytes[i%len(bytes):][:1]); err != nil {
				return 0, err
			}
		}
	}
	for _, c := range all {
		if err := c.finish(v.Kind); err != nil {
			return 0, err
		}
	}
	return each * conns, nil
}

// churn opens connections and closes them at once.
func churn(m *measurement, v *victim) (int, error) {
	for range m.churn {
		c, err := net.DialTimeout("tcp", v.address, dialTimeout)
		if err != nil {
			return 0, err
		}
		c.(*net.TCPConn).SetLinger(0) // no port waits for a minute
		c.Close()
	}
	return m.churn, nil
}

// A dump is a connection of which all answers are thrown away.
type dump struct {
	net.Conn
	drained chan error
}

func (v *victim) connect() (*dump, error) {
	c, err := net.DialTimeout("tcp", v.address, dialTimeout)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	d := &dump{c, make(chan error, 1)}
	go func() {
		_, err := io.Copy(io.Discard, c)
		d.drained <- err
	}()
	return d, nil
}

// finish asks the server to close, and waits until it has: then it has read
// everything before.
func (d *dump) finish(kind string) error {
	end := string(rune(quit))
	if kind == server.HTTP {
		end = "\r\nGET /13 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	}
	if _, err := io.WriteString(d, end); err != nil {
		return err
	}
	if err := <-d.drained; err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// A CostReport is the result of Cost.
type CostReport struct {
	Rounds int `json:"rounds"`
	Where
	Rows []CostRow `json:"abuses"`
}

// A CostRow is what an abuse costs a server. Ratios are of ours to bare.
type CostRow struct {
	Server string  `json:"server"`
	Abuse  string  `json:"abuse"`
	Unit   string  `json:"unit"`
	Bare   float64 `json:"bare_cpu_ns"` // of a unit; medians
	Ours   float64 `json:"ours_cpu_ns"`
	Ratio  float64 `json:"ratio"` // the median of the rounds
	Least  float64 `json:"ratio_min"`
	Most   float64 `json:"ratio_max"`
}

// newCostRow compares the costs by round.
func newCostRow(a abuse, kind string, bare, ours []float64) CostRow {
	ratios := stats.Ratios(ours, bare)
	all := stats.Summarize(ratios)
	return CostRow{
		Server: "idle" + kind, Abuse: a.name, Unit: a.unit, Bare: round(stats.Median(bare), 2), Ours: round(stats.Median(ours), 2),
		Ratio: round(all.Median, 3), Least: round(all.Min, 3), Most: round(all.Max, 3),
	}
}

// Status is a pass: the figures are for people to judge.
func (r *CostReport) Status() int { return program.Pass }

// Table writes r for people.
func (r *CostReport) Table(w io.Writer) {
	t := table.Table{
		Title:   fmt.Sprintf("CPU time of servers whose client is abusive, without timeouts and with ours, in turns; medians of %d rounds", r.Rounds),
		Columns: table.Columns("server", "a client that", "ns a", "bare", "ours", "ratio", "from", "to"),
	}
	t.Columns[1].Text, t.Columns[2].Text = true, true
	for _, row := range r.Rows {
		t.Add(row.Server, row.Abuse, row.Unit, table.Figure(row.Bare), table.Figure(row.Ours),
			fmt.Sprintf("%.3f", row.Ratio), fmt.Sprintf("%.3f", row.Least), fmt.Sprintf("%.3f", row.Most))
	}
	t.Write(w)
}
