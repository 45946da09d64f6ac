package attack

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// An abuse is what a hostile client does to make a server work. On so many
// connections at a time it sends pieces, in turns, and then waits until the server
// has read all of them. Without pieces it closes each connection at once.
type abuse struct {
	name, unit string // what it costs is told for each unit
	kinds      []string
	conns      int
	pieces     int    // on each connection
	size       int    // of a piece
	text       string // pieces are taken from it, again and again
	prefix     string // comes first
}

func abuses() []abuse {
	beats, web := []string{server.Net, server.Gnet}, []string{server.HTTP}
	flood := func(name string, kinds []string, pieces int, message string) abuse {
		text := strings.Repeat(message, 64<<10/len(message))
		return abuse{name: name, unit: "byte", kinds: kinds, conns: 1, pieces: pieces, size: len(text), text: text}
	}
	// The bytes of one connection are kept apart by those of the others: what
	// comes close together the server would read at once.
	drip := abuse{name: "sends one byte at a time", unit: "byte", kinds: beats, conns: 100, pieces: 200, size: 1, text: string(rune(beat))}
	header := drip
	header.kinds, header.prefix, header.text = web, "GET /13 HTTP/1.1\r\n", "Hostile: "+strings.Repeat("x", 40)+"\r\n"
	return []abuse{
		flood("floods with bytes", beats, 256, string(rune(noise))),
		flood("floods with beats of one byte", beats, 256, string(rune(beat))),
		flood("floods with pipelined requests", web, 32, getRequest(13)), // each is more work than as many beats
		drip,
		header,
		{name: "opens and closes at once", unit: "connection", kinds: append(beats, web...), conns: 1000},
	}
}

// do does the abuse, or a part of it, to a server, and returns how many units that
// was.
func (a *abuse) do(v *victim, part int) (units int, err error) {
	var all []net.Conn
	drained := make(chan error, a.conns)
	for range max(1, a.conns/part) {
		c, err := net.DialTimeout("tcp", v.Address, dialTimeout)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		if a.pieces == 0 {
			c.(*net.TCPConn).SetLinger(0) // no port waits for a minute
			c.Close()
			units++
			continue
		}
		all = append(all, c)
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		go func() {
			_, err := io.Copy(io.Discard, c)
			drained <- err
		}()
	}
	if a.pieces == 0 {
		return units, nil
	}
	send := func(text string) {
		for _, c := range all {
			if err == nil {
				_, err = io.WriteString(c, text)
			}
		}
	}
	send(a.prefix)
	pieces := max(1, a.pieces/part)
	for i := range pieces {
		send(a.text[i*a.size%len(a.text):][:a.size])
	}
	if v.Kind == server.HTTP { // asks it to close
		send("\r\nGET /13 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	} else {
		send(string(rune(quit)))
	}
	for range all {
		if err == nil {
			err = <-drained
		}
	}
	return pieces * a.size * len(all), err
}

// Cost measures in rounds what CPU time each abuse costs each server, with
// timeouts and without, in turns. The servers have a core, this process another.
func Cost(ctx context.Context, rounds int, stderr io.Writer, show progress.Flag) (*CostReport, error) {
	return measureAll(ctx, rounds, 1, stderr, show)
}

// measureAll does only a part of each abuse.
func measureAll(ctx context.Context, rounds, part int, stderr io.Writer, show progress.Flag) (*CostReport, error) {
	rep := &CostReport{Rounds: rounds, Where: machine.Here()}
	core, err := child.Allot()
	if err != nil {
		return nil, err
	}
	p := progress.New(stderr, show)
	defer p.Clear()
	for _, a := range abuses() {
		for _, kind := range a.kinds {
			what := fmt.Sprintf("a client of idle%s that %s", kind, a.name)
			p.Say("soak: %s", what)
			row, err := a.compare(ctx, kind, rounds, part, child.Options{Stderr: stderr, Pinned: true, Core: core})
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
func (a *abuse) compare(ctx context.Context, kind string, rounds, part int, options child.Options) (row CostRow, err error) {
	var victims []*victim
	for _, variant := range []string{server.Bare, server.Ours} {
		v, err := start(order{Kind: kind, Variant: variant, Limits: abused()}, options)
		if err != nil {
			return row, err
		}
		defer v.Kill()
		victims = append(victims, v)
	}
	costs := make([][]float64, len(victims))   // ns of CPU time for each unit, by round
	for round := -1; round < rounds; round++ { // the first one warms up
		for _, i := range rand.Perm(len(victims)) {
			if err := ctx.Err(); err != nil {
				return row, err
			}
			cost, err := a.measure(victims[i], part)
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

// measure does the abuse, and returns the CPU time, in ns, that a unit cost.
func (a *abuse) measure(v *victim, part int) (float64, error) {
	before, err := usage.CPU(v.Pid())
	if err != nil {
		return 0, err
	}
	n, err := a.do(v, part)
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

// A CostReport is the result of Cost.
type CostReport struct {
	Rounds int `json:"rounds"`
	machine.Where
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
func newCostRow(a *abuse, kind string, bare, ours []float64) CostRow {
	ratios := stats.Ratios(ours, bare)
	all := stats.Summarize(ratios)
	return CostRow{
		Server: "idle" + kind, Abuse: a.name, Unit: a.unit, Bare: table.Round(stats.Median(bare), 2), Ours: table.Round(stats.Median(ours), 2),
		Ratio: table.Round(all.Median, 3), Least: table.Round(all.Min, 3), Most: table.Round(all.Max, 3),
	}
}

// Status is a pass: the figures are for people to judge.
func (r *CostReport) Status() int { return program.Pass }

// Table writes r for people.
func (r *CostReport) Table(w io.Writer) {
	t := table.Table{
		Title:   fmt.Sprintf("CPU time of servers whose client is abusive, without timeouts and with ours, in turns; medians of %d rounds", r.Rounds),
		Columns: []string{"server", "a client that", "bare", "ours", "ratio", "from", "to"}, Left: 2,
		Caption: "Times are ns for each byte, or for each connection that is opened and closed.",
	}
	for _, row := range r.Rows {
		t.Add(row.Server, row.Abuse, table.Figure(row.Bare), table.Figure(row.Ours),
			fmt.Sprintf("%.3f", row.Ratio), fmt.Sprintf("%.3f", row.Least), fmt.Sprintf("%.3f", row.Most))
	}
	t.Write(w)
}
