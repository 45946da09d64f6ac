package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/cpu"
)

// An abuse is what a hostile client does to make a server work.
type abuse struct {
	name    string
	servers []string
	unit    string // what it costs is told for each of these
	attack  func(m *measurement, v *victim) (units int, err error)
}

var abuses = []abuse{
	{"floods with bytes", []string{"net", "gnet"}, "byte", flood(string(rune(noise)))},
	{"floods with beats of one byte", []string{"net", "gnet"}, "byte", flood(string(rune(beat)))},
	{"floods with pipelined requests", []string{"http"}, "byte", flood(getRequest(13))},
	{"sends one byte at a time", []string{"net", "gnet", "http"}, "byte", drip},
	{"opens and closes at once", []string{"net", "gnet", "http"}, "connection", churn},
}

// A measurement is how much is done how often.
type measurement struct {
	rounds             int
	flood, drip, churn int // in a round
}

// Cost measures in rounds what each abuse costs each server, with timeouts and
// without, in turns. It calls begin before each abuse.
func Cost(ctx context.Context, rounds int, stderr io.Writer, begin func(what string)) (*CostReport, error) {
	return (&measurement{rounds: rounds, flood: 16 << 20, drip: 20_000, churn: 1000}).run(ctx, stderr, begin)
}

func (m *measurement) run(ctx context.Context, stderr io.Writer, begin func(what string)) (*CostReport, error) {
	rep := &CostReport{Rounds: m.rounds, where: here()}
	for _, a := range abuses {
		for _, server := range a.servers {
			what := fmt.Sprintf("a client of idle%s that %s", server, a.name)
			begin(what)
			row, err := m.compare(ctx, a, server, stderr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			rep.Rows = append(rep.Rows, row)
		}
	}
	return rep, nil
}

// A victim is a server process that is abused.
type victim struct {
	*child
	spec
	cost []float64 // ns of CPU time for each unit, by round
}

// abused are limits that an abusive client does not pass.
func abused() Limits {
	const long = 10 * time.Minute
	return Limits{Header: long, Body: long, Write: long, KeepAlive: long, Grace: long, Rate: 1, WriteRate: 1}
}

// compare does an abuse to both variants of a server.
func (m *measurement) compare(ctx context.Context, a abuse, server string, stderr io.Writer) (row CostRow, err error) {
	both := []*victim{{spec: spec{Server: server, Variant: bare}}, {spec: spec{Server: server, Variant: ours}}}
	for _, v := range both {
		v.Limits = abused()
		if v.child, err = start(v.spec, stderr, []string{"GOMAXPROCS=1"}, nil); err != nil {
			return row, err
		}
		defer v.stop()
	}
	for round := -1; round < m.rounds; round++ { // the first one warms up
		for _, i := range rand.Perm(len(both)) {
			if err := ctx.Err(); err != nil {
				return row, err
			}
			cost, err := m.abuse(a, both[i])
			if err != nil {
				return row, fmt.Errorf("%s: %w", both[i].Variant, err)
			}
			if round >= 0 {
				both[i].cost = append(both[i].cost, cost)
			}
		}
	}
	return newCostRow(a, server, both[0].cost, both[1].cost), nil
}

// settleTime is how long after an abuse the server is given to finish its work. A
// machine that is so busy that it has not let the server run gets it often.
const settleTime, settleTries = 50 * time.Millisecond, 100

// abuse returns the CPU time, in ns, that a unit of an abuse costs a victim.
func (m *measurement) abuse(a abuse, v *victim) (float64, error) {
	before, err := cpu.Time(v.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	n, err := a.attack(m, v)
	if err != nil {
		return 0, err
	}
	for range settleTries {
		time.Sleep(settleTime)
		after, err := cpu.Time(v.cmd.Process.Pid)
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
		if v.Server == "http" {
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
		return n * len(batch), c.finish(v.Server)
	}
}

// drip sends byte by byte, on many connections in turns, so that the server reads
// each by itself: what comes close together it would read at once.
func drip(m *measurement, v *victim) (int, error) {
	const conns = 100
	prefix, bytes := "", string(rune(beat))
	if v.Server == "http" {
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
		if err := c.finish(v.Server); err != nil {
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
func (d *dump) finish(server string) error {
	end := string(rune(quit))
	if server == "http" {
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
	where
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
func newCostRow(a abuse, server string, bare, ours []float64) CostRow {
	ratios := make([]float64, len(bare))
	for i := range bare {
		ratios[i] = ours[i] / bare[i]
	}
	return CostRow{
		Server: "idle" + server, Abuse: a.name, Unit: a.unit, Bare: round(median(bare), 2), Ours: round(median(ours), 2),
		Ratio: round(median(ratios), 3), Least: round(slices.Min(ratios), 3), Most: round(slices.Max(ratios), 3),
	}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Table writes r for people.
func (r *CostReport) Table(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "CPU time of servers whose client is abusive, with timeouts and without, in\nturns; medians of %d rounds\n\n", r.Rounds)
	var rows [][]string
	for _, row := range r.Rows {
		rows = append(rows, []string{row.Server, row.Abuse, row.Unit, fmt.Sprintf("%.1f\t%.1f\t%.3f\t%.3f to %.3f", row.Bare, row.Ours, row.Ratio, row.Least, row.Most)})
	}
	tabulate(&out, "server\ta client that\tns per\tbare\tours\tratio\t", rows)
	_, err := w.Write(out.Bytes())
	return err
}
