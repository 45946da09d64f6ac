// Soak puts a mixed load over real loopback sockets on servers with idlewheel's timeouts,
// one of each kind, for as long as you like, and checks what becomes of every connection.
//
//	go -C bench run ./proof/soak                      # ten minutes
//	go -C bench run ./proof/soak -duration 10s -json
//
// Clients that are active must never be closed. Those that fall silent must be closed, never
// early, and not late by more than two seconds. The servers' counts have to add up, and nothing
// may leak.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

func main() { newProgram().Main() }

type config struct {
	duration time.Duration
	conns    int
}

const (
	limit = time.Second     // of all silence; short, so that it often passes
	slack = 2 * time.Second // how much longer a silent connection may be kept, on a busy machine
)

func newProgram() *program.Program[*report] {
	c := &config{}
	return &program.Program[*report]{
		Name: "proof/soak",
		Does: "Soak puts a mixed load over real sockets on servers with idlewheel's timeouts, and checks who is\nclosed, when, and why, and that nothing leaks.",
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&c.duration, "duration", 10*time.Minute, "how long the load lasts")
			fs.IntVar(&c.conns, "conns", 1000, "how many clients there are at a time; each takes two descriptors")
		},
		Check: func() error {
			return cmp.Or(
				program.Within("duration", c.duration, 5*time.Second, 7*24*time.Hour, ""),
				program.Within("conns", c.conns, len(server.Kinds()), 10_000, "; each server takes one"),
				machine.Enough("conns", c.conns, 2, 256),
			)
		},
		Begin: func() string {
			return fmt.Sprintf("soak: %d clients at a time for %v, limit %v, slack %v", c.conns, c.duration, limit, slack)
		},
		Run: c.run,
	}
}

// A target is a server under load, which runs in this process, and what became of its clients.
type target struct {
	*server.Server `json:"-"`
	kind           string

	mu       sync.Mutex
	Dials    int            `json:"dials"`
	Left     int            `json:"left"`     // by themselves, as they were to
	Closed   map[string]int `json:"closed"`   // by the server, as they had to be, by reason
	Unsure   int            `json:"unsure"`   // were late themselves, so that either end is right
	Violated int            `json:"violated"` // ended wrongly
	First    []string       `json:"first_violations,omitempty"`
	late     stats.Spread
}

// add notes what became of a client.
func (t *target) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Dials++
	switch {
	case o.fault != "":
		t.Violated++
		if len(t.First) < 10 {
			t.First = append(t.First, o.fault)
		}
	case o.unsure:
		t.Unsure++
	case o.reason != 0:
		t.Closed[o.reason.String()]++
		t.late.Add(o.late)
	default:
		t.Left++
	}
}

// A level is how much is in use.
type level struct {
	Goroutines int     `json:"goroutines"`
	HeapMB     float64 `json:"heap_mb"`
}

func measure() level {
	runtime.GC()
	runtime.GC() // what sync.Pools held is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return level{runtime.NumGoroutine(), table.Round(float64(m.HeapAlloc)/(1<<20), 2)}
}

// settle measures when no connection is left and enough says so, or at last after 20 s.
func settle(targets []*target, enough func(level) bool) (l level) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		live := uint64(0)
		for _, t := range targets {
			live += t.Stats().Live
		}
		if l = measure(); live == 0 && enough(l) {
			break
		}
	}
	return l
}

func (c *config) run(ctx context.Context, show func(string, ...any)) (*report, error) {
	r := &report{Machine: machine.Here("github.com/panjf2000/gnet/v2", "github.com/valyala/fasthttp"), Conns: c.conns, Servers: map[string]*target{}}
	var targets []*target
	for _, kind := range server.Kinds() {
		s, err := server.Start(server.Config{
			Kind: kind, Variant: server.Ours, Policy: idle.Policy{IdleTimeout: limit},
			Timeouts: httplimits.Timeouts{HandshakeTimeout: limit, HeaderTimeout: limit, KeepAliveTimeout: limit},
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		defer s.Stop()
		r.Servers[kind] = &target{Server: s, kind: kind, Closed: map[string]int{}}
		targets = append(targets, r.Servers[kind])
	}
	c.load(ctx, targets, 4*limit, show) // what is made once, or kept for the next connection, is there after that
	last := time.Now()
	r.Before = settle(targets, func(l level) bool { // nothing has changed for two seconds
		if l.Goroutines != r.Before.Goroutines || l.HeapMB < r.Before.HeapMB-0.05 {
			r.Before, last = l, time.Now()
		}
		return time.Since(last) > 2*time.Second
	})
	for _, t := range targets {
		r.Served -= t.Dials
	}
	begun := time.Now()
	c.load(ctx, targets, c.duration, show)
	r.Seconds = table.Round(time.Since(begun).Seconds(), 1)
	// The runtime keeps 450 bytes for each goroutine of the busiest moment, and maps that
	// have grown. None of it grows with time, so a long soak finds small leaks.
	most := level{r.Before.Goroutines + 16, r.Before.HeapMB + 1 + float64(c.conns)/2000}
	fits := func(l level) bool { return l.Goroutines <= most.Goroutines && l.HeapMB <= most.HeapMB }
	if r.After = settle(targets, fits); !fits(r.After) {
		r.Faults = append(r.Faults, fmt.Sprintf("a leak: %+v are in use after the load, and %+v were before", r.After, r.Before))
	}
	for _, t := range targets {
		r.Served += t.Dials
		r.Faults = append(r.Faults, t.reconcile()...)
	}
	return r, nil
}

// load keeps clients on all servers for a time. A quarter of them live as long as that.
func (c *config) load(ctx context.Context, targets []*target, d time.Duration, show func(string, ...any)) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begun := time.Now()
	var all sync.WaitGroup
	for i := range c.conns {
		t := targets[i%len(targets)]
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			program.Sleep(ctx, time.Duration(rng.Int64N(int64(limit)))) // so that they don't all come at once
			if i/len(targets)%4 == 0 {
				t.live(ctx, active, rng)
			}
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, 2*limit+time.Duration(rng.Int64N(int64(6*limit))))
				t.live(short, rng.IntN(numLives), rng)
				cancel()
			}
		})
	}
	for program.Sleep(ctx, time.Second) {
		show("soak: %.0f s of %v", time.Since(begun).Seconds(), d)
	}
	all.Wait()
}

// reconcile compares what the server has counted with what its clients have seen.
func (t *target) reconcile() (faults []string) {
	st := t.Stats()
	if st.Live != 0 || int(st.Tracked) != t.Dials {
		faults = append(faults, fmt.Sprintf("%s: %d connections were tracked, and %d are live; clients made %d", t.kind, st.Tracked, st.Live, t.Dials))
	}
	for reason, n := range st.TimedOut {
		seen := t.Closed[reason.String()]
		if int(n) < seen || int(n) > seen+t.Unsure+t.Violated {
			faults = append(faults, fmt.Sprintf("%s: %d connections timed out by %v, and clients saw %d and are unsure of %d", t.kind, n, reason, seen, t.Unsure))
		}
	}
	return faults
}

type report struct {
	Machine machine.Machine    `json:"machine"`
	Seconds float64            `json:"duration_s"`
	Conns   int                `json:"conns"`
	Served  int                `json:"served"` // connections
	Before  level              `json:"before"` // after the warm-up
	After   level              `json:"after"`  // when all connections were closed
	Faults  []string           `json:"faults"`
	Servers map[string]*target `json:"servers"`
}

func (r *report) Status() int {
	bad := len(r.Faults)
	for _, t := range r.Servers {
		bad += t.Violated
	}
	if bad > 0 {
		return program.Fail
	}
	return program.Pass
}

func (r *report) Table(w io.Writer) {
	rows := [][]string{{"server", "clients", "left", "closed", "late ms p50", "p99", "unsure", "violated"}}
	for _, kind := range server.Kinds() {
		t := r.Servers[kind]
		late := t.late.Summary()
		rows = append(rows, []string{kind, table.Group(t.Dials), table.Group(t.Left), fmt.Sprint(t.Closed), table.Figure(late.P50), table.Figure(late.P99),
			table.Group(t.Unsure), table.Group(t.Violated)})
	}
	table.Write(w, fmt.Sprintf("%v\n%.0f s, %s connections, %+v in use before and %+v after", r.Machine, r.Seconds, table.Group(r.Served), r.Before, r.After), rows...)
	for kind, t := range r.Servers {
		for _, v := range t.First {
			fmt.Fprintf(w, "violation: %s: %s\n", kind, v)
		}
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "fault: %s\n", f)
	}
	if r.Status() == program.Pass {
		fmt.Fprintln(w, "\nPASS: nobody was closed who was active, everybody who was silent, each for its reason, and nothing leaked.")
	} else {
		fmt.Fprintln(w, "\nFAIL")
	}
}
