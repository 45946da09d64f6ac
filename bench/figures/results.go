package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"text/template"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// results are the files in bench/results, as far as the pages need them.
type results struct {
	peers struct {
		Machine machine.Machine
		Rows    []peer
	}
	e2e struct {
		Machine machine.Machine
		Servers []server
	}
	// Rolling restarts with idlehttp.Shutdown, and with http.Server.Shutdown.
	restart, restartOwn restarts

	load     map[string]any
	benches  map[string][]float64 // ns, by the name of a benchmark
	measured measured
}

// A peer is a row of peers.json.
type peer struct {
	Workload, Contender, Unit string
	Conns, N                  int
	Median, Min, Max          *float64
}

// A server is one of e2e.json.
type server struct {
	Server   string
	Rounds   int
	Variants []struct {
		Name     string
		Rate     float64    `json:"ratio_to_bare"`
		RateIn95 [2]float64 `json:"ratio_to_bare_95"`
		CPU      float64    `json:"cpu_ratio_to_bare"`
		CPUIn95  [2]float64 `json:"cpu_ratio_to_bare_95"`
	}
	Crowd *struct {
		Rounds   int
		Silent   int `json:"silent_conns"`
		Waiting  int `json:"waiting_conns"`
		Variants []crowd
	}
}

// A crowd is what it costs to have many connections, and to close them.
type crowd struct {
	Name   string
	Bytes  float64 `json:"bytes_per_conn"`
	Over   float64 `json:"bytes_over_bare"`
	Closed *struct {
		Median float64
	} `json:"all_closed_ms"`
	Active *struct {
		P99 float64
	} `json:"active_ms"`
	CPU     float64    `json:"cpu_ratio_to_own"`
	CPUIn95 [2]float64 `json:"cpu_ratio_to_own_95"`
}

// restarts are what clients have seen of them.
type restarts struct {
	Machine  machine.Machine
	Load     float64
	Restarts int
	Kinds    []struct {
		Kind             string
		Requests, Failed int
	}
	Faults []string
}

// load reads the results in a folder.
func load(dir string) (*results, error) {
	r := new(results)
	for name, to := range map[string]any{
		"peers": &r.peers, "e2e": &r.e2e, "loadtest": &r.load,
		"restart": &r.restart, "restart-own": &r.restartOwn, "measured": &r.measured,
	} {
		b, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, to); err != nil {
			return nil, fmt.Errorf("%s.json: %w", name, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "benchmarks.txt"))
	if err != nil {
		return nil, err
	}
	r.benches = map[string][]float64{}
	for _, m := range benchLine.FindAllStringSubmatch(string(b), -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		r.benches[m[1]] = append(r.benches[m[1]], ns)
	}
	return r, nil
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// bench returns the median of a benchmark, such as "60 ns".
func (r *results) bench(name string) (string, error) {
	ns := slices.Sorted(slices.Values(r.benches[name]))
	if len(ns) < 3 {
		return "", fmt.Errorf("benchmarks.txt has %d runs of %s", len(ns), name)
	}
	return number(ns[len(ns)/2]) + " ns", nil
}

// funcs are what templates call for a figure.
func (r *results) funcs() template.FuncMap {
	return template.FuncMap{
		"peer":    r.peer,
		"bench":   r.bench,
		"between": r.between,
		"times":   r.times,
		"conns":   r.conns,
		"turns":   r.turns,
		"cpu":     r.cpu,
		"rate":    r.rate,
		"percent": r.percent,
		"rounds":  r.rounds,
		"weight":  r.weight,
		"over":    r.over,
		"closed":  r.closed,
		"active":  r.active,
		"closing": r.closing,
		"dearest": r.dearest,
		"load":    r.loadtest,
		"where":   r.where,
		"version": r.version,

		"measured": r.hasServer,

		"restarts":    func() restarts { return r.restart },
		"restartRows": r.restartRows,
		"restartLoad": r.restartLoad,
	}
}

func (r *results) row(workload, contender string) (peer, error) {
	i := slices.IndexFunc(r.peers.Rows, func(p peer) bool {
		return p.Workload == workload && p.Contender == contender && p.Median != nil
	})
	if i < 0 {
		return peer{}, fmt.Errorf("peers.json has no figure for %s/%s", workload, contender)
	}
	return r.peers.Rows[i], nil
}

// peer returns a median of peers, such as "0.77 ns".
func (r *results) peer(workload, contender string) (string, error) {
	p, err := r.row(workload, contender)
	if err != nil {
		return "", err
	}
	return number(*p.Median) + " " + p.Unit, nil
}

// between returns the least and the greatest of the turns, such as "1,300 to 5,000 ms".
func (r *results) between(workload, contender string) (string, error) {
	p, err := r.row(workload, contender)
	if err != nil {
		return "", err
	}
	return number(*p.Min) + " to " + number(*p.Max) + " " + p.Unit, nil
}

// times returns the figure of one contender divided by the figure of the other.
func (r *results) times(workload, one, other string) (string, error) {
	p, err := r.row(workload, one)
	if err != nil {
		return "", err
	}
	q, err := r.row(workload, other)
	if err != nil {
		return "", err
	}
	return number(*p.Median / *q.Median), nil
}

func (r *results) conns(workload, contender string) (string, error) {
	p, err := r.row(workload, contender)
	return table.Group(p.Conns), err
}

// turns returns the fewest turns of a row.
func (r *results) turns() int {
	fewest := math.MaxInt
	for _, p := range r.peers.Rows {
		if p.Median != nil {
			fewest = min(fewest, p.N)
		}
	}
	return fewest
}

func (r *results) server(name string) (*server, error) {
	for i := range r.e2e.Servers {
		if r.e2e.Servers[i].Server == name {
			return &r.e2e.Servers[i], nil
		}
	}
	return nil, fmt.Errorf("e2e.json has no server %s", name)
}

// hasServer reports whether the results have a server. They may be older than its row.
func (r *results) hasServer(name string) bool {
	_, err := r.server(name)
	return err == nil
}

// ratios compares a server with the bare one. It returns CPU time divided by CPU time, and
// requests a second divided by requests a second.
func (r *results) ratios(name, variant string) (cpu, rate [3]float64, err error) {
	s, err := r.server(name)
	if err != nil {
		return cpu, rate, err
	}
	for _, v := range s.Variants {
		if v.Name == variant {
			return [3]float64{v.CPU, v.CPUIn95[0], v.CPUIn95[1]}, [3]float64{v.Rate, v.RateIn95[0], v.RateIn95[1]}, nil
		}
	}
	return cpu, rate, fmt.Errorf("e2e.json has no variant %s of %s", variant, name)
}

// cpu returns the CPU time of a request against the bare server, such as "0.99 (0.98 to 0.99)".
func (r *results) cpu(name, variant string) (string, error) {
	cpu, _, err := r.ratios(name, variant)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", cpu[0], cpu[1], cpu[2]), err
}

// rate returns the requests a second against the bare server, such as "101 % (99 to 102)".
func (r *results) rate(name, variant string) (string, error) {
	_, rate, err := r.ratios(name, variant)
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*rate[0], 100*rate[1], 100*rate[2]), err
}

// percent returns the CPU time of a request against the bare server, such as "99 %".
func (r *results) percent(name, variant string) (string, error) {
	cpu, _, err := r.ratios(name, variant)
	return fmt.Sprintf("%.0f %%", 100*cpu[0]), err
}

func (r *results) crowd(name, variant string) (*crowd, error) {
	s, err := r.server(name)
	if err != nil {
		return nil, err
	}
	if s.Crowd != nil {
		for i := range s.Crowd.Variants {
			if c := &s.Crowd.Variants[i]; c.Name == variant {
				return c, nil
			}
		}
	}
	return nil, fmt.Errorf("e2e.json has no crowd of %s/%s", name, variant)
}

// weight returns how many bytes a waiting connection of the bare server takes.
func (r *results) weight(name string) (string, error) {
	c, err := r.crowd(name, "bare")
	if err != nil {
		return "", err
	}
	return table.Group(int(c.Bytes)), nil
}

// over returns how many bytes a waiting connection takes more than one of the bare server.
func (r *results) over(name, variant string) (string, error) {
	c, err := r.crowd(name, variant)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%+.0f", c.Over), nil
}

// closed returns when all of a crowd were closed, in ms after the limit.
func (r *results) closed(name, variant string) (string, error) {
	c, err := r.crowd(name, variant)
	if err != nil {
		return "", err
	}
	if c.Closed == nil {
		return "", fmt.Errorf("e2e.json has no time for the crowd of %s/%s", name, variant)
	}
	return fmt.Sprintf("%.0f ms", c.Closed.Median), nil
}

// active returns the 99th percentile of how long active clients waited for an answer while a crowd
// was closed, in ms.
func (r *results) active(name, variant string) (string, error) {
	c, err := r.crowd(name, variant)
	if err != nil {
		return "", err
	}
	if c.Active == nil {
		return "", fmt.Errorf("e2e.json has no answers beside the crowd of %s/%s", name, variant)
	}
	return number(c.Active.P99) + " ms", nil
}

// closing returns the CPU time to close a connection, against the server's own timeouts.
func (r *results) closing(name string) (string, error) {
	c, err := r.crowd(name, "ours")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", c.CPU, c.CPUIn95[0], c.CPUIn95[1]), nil
}

// dearest returns the least and the greatest of all such ratios, such as "1.6 to 1.8".
func (r *results) dearest() string {
	least, most := math.Inf(1), 0.0
	for _, s := range r.e2e.Servers {
		if c, err := r.crowd(s.Server, "ours"); err == nil && c.CPU > 0 {
			least, most = min(least, c.CPU), max(most, c.CPU)
		}
	}
	return fmt.Sprintf("%.1f to %.1f", least, most)
}

// rounds returns how many rounds e2e has run, for its servers or for its crowds.
func (r *results) rounds(what string) (int, error) {
	for _, s := range r.e2e.Servers {
		switch {
		case what == "servers":
			return s.Rounds, nil
		case s.Crowd != nil:
			return s.Crowd.Rounds, nil
		}
	}
	return 0, fmt.Errorf("e2e.json has no %s", what)
}

// loadtest returns a figure of loadtest.json, by its path.
func (r *results) loadtest(path ...string) (string, error) {
	var at any = r.load
	for _, name := range path {
		of, _ := at.(map[string]any)
		at = of[name]
	}
	v, ok := at.(float64)
	switch {
	case !ok:
		return "", fmt.Errorf("loadtest.json has no number %v", path)
	case v == math.Trunc(v):
		return table.Group(int(v)), nil
	}
	return number(v), nil
}

// A restartRow is what clients of one kind have seen: of ours, and of http.Server.Shutdown.
type restartRow struct{ Kind, Requests, Failed, OwnRequests, OwnFailed string }

func (r *results) restartRows() (rows []restartRow, err error) {
	if len(r.restart.Kinds) != len(r.restartOwn.Kinds) || r.restart.Restarts != r.restartOwn.Restarts {
		return nil, errors.New("restart.json and restart-own.json aren't of the same run")
	}
	for i, k := range r.restart.Kinds {
		own := r.restartOwn.Kinds[i]
		if k.Kind != own.Kind {
			return nil, fmt.Errorf("restart-own.json has %s where restart.json has %s", own.Kind, k.Kind)
		}
		rows = append(rows, restartRow{k.Kind, table.Group(k.Requests), table.Group(k.Failed), table.Group(own.Requests), table.Group(own.Failed)})
	}
	return rows, nil
}

// restartLoad says how busy the machine was with other things.
func (r *results) restartLoad() string {
	return fmt.Sprintf("The load average was %s before the first run, and %s before the one with `-own`.", number(r.restart.Load), number(r.restartOwn.Load))
}

// where says on what machine the results were made.
func (r *results) where() string {
	m := r.peers.Machine
	return fmt.Sprintf("%d cores of an %s, %s/%s %s, %s, %s", m.Cores, m.CPU, m.OS, m.Arch, m.Release, m.Go, m.Date)
}

// version returns the version of a server that e2e has measured, by the path of its module.
func (r *results) version(module string) (string, error) {
	v, ok := r.e2e.Machine.Modules[module]
	if !ok {
		return "", fmt.Errorf("e2e.json has no version of %s", module)
	}
	return v, nil
}

// number writes two or three digits, as far as they mean something.
func number(v float64) string {
	switch size := math.Abs(v); {
	case size >= 10:
		return table.Group(int(math.Round(v)))
	case size >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
