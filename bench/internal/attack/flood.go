package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A flood is an attack on a server that has descriptors for half of the attackers.
// Each attacker opens a connection, says nothing, and opens another one as soon as
// that has ended. Honest clients that are idle have come before, and have a
// connection that they use within the grace of the Capacity. Newcomers are honest
// too, and open a connection for each request.
type flood struct {
	Variant   string  `json:"variant"`
	Newcomers service `json:"newcomers"`
	Idle      int     `json:"idle"` // honest clients that were idle within the grace throughout
	Kept      int     `json:"kept"` // of these, whose connection was never closed
	Opened    int64   `json:"attackers_opened"`
}

// The variants of a flood, beside those of the server. They are ours with a Capacity.
const (
	refusing = "most"     // allows fewer connections than there are descriptors for
	evicting = "evicting" // has no limit but the descriptors
	perKey   = "per key"  // limits each address, so that attackers have half of the descriptors at most
)

// sources is from how many addresses the attackers come.
const sources = 20

// lenient are timeouts that are too long to end silent attackers soon.
func lenient() Limits {
	const long = 30 * time.Second
	return Limits{Header: long, Body: long, Write: long, KeepAlive: long, Grace: long, Rate: 240, WriteRate: 240}
}

// Flood floods each variant of a server.
func Flood(ctx context.Context, cfg Config, stderr io.Writer) (*Report, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("this is %s, but it runs on Linux only", runtime.GOOS)
	}
	cfg.Limits = lenient()
	rep := newReport(cfg)
	p := progress.New(stderr, "")
	defer p.Clear()
	for _, variant := range append(server.Variants(cfg.Server), refusing, evicting, perKey) {
		p.Say("attack: %s, flooded, %v", variant, cfg.Duration)
		f, err := cfg.flood(ctx, variant, stderr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variant, err)
		}
		rep.Floods = append(rep.Floods, f)
	}
	rep.judge()
	return rep, nil
}

func (c *Config) flood(ctx context.Context, variant string, stderr io.Writer) (*flood, error) {
	o := order{Kind: c.Server, Variant: variant, Limits: c.Limits, Clients: c.Attackers/2 + c.Honest, Echo: true}
	switch o.Variant, o.Evict = server.Ours, c.Capacity; variant {
	case refusing:
		o.Most = c.Attackers/2 - c.Attackers/20
	case evicting:
	case perKey:
		o.PerKey = c.Attackers / 4 / sources
	default:
		o.Variant, o.Evict = variant, 0
	}
	victim, err := start(o, child.Options{Stderr: stderr})
	if err != nil {
		return nil, err
	}
	defer victim.Kill()
	attack, peace := context.WithCancel(ctx)
	defer peace()
	ctx, end := context.WithTimeout(attack, c.Duration)
	defer end()
	honest := func(patience time.Duration) *clients {
		return &clients{Config: *c, address: victim.Address, every: c.Every, patience: patience, request: quick, latency: spread.New()}
	}
	newcomers, idlers := honest(c.Patience), honest(c.Duration)
	newcomers.perConn = 1

	f := &flood{Variant: variant}
	var kept, late, opened atomic.Int64
	var attackers, asking, settled sync.WaitGroup
	settled.Add(c.Honest)
	for i := range c.Honest {
		asking.Go(func() {
			v := visit{clients: idlers, from: address(2, i)}
			defer v.leave()
			err := v.ask(quick(i))
			settled.Done()
			for last := time.Now(); err == nil && program.Sleep(ctx, c.Capacity/4); last = time.Now() {
				if err = v.ask(quick(i)); err != nil && time.Since(last) > c.Capacity/2 { // the machine was busy
					late.Add(1)
				}
			}
			if err == nil {
				kept.Add(1)
			}
		})
	}
	settled.Wait()
	for i := range c.Attackers {
		attackers.Go(func() { silence(attack, victim.Address, address(1, i%sources), &opened) })
	}
	program.Sleep(ctx, calm)
	for i := range c.Honest {
		asking.Go(func() { newcomers.run(ctx, address(3, i)) })
	}
	asking.Wait()
	err = attack.Err()
	peace()
	attackers.Wait()
	f.Newcomers, f.Opened = newcomers.served(), opened.Load()
	f.Idle, f.Kept = c.Honest-int(late.Load()), int(kept.Load())
	return f, err
}

// address returns one of the addresses of loopback.
func address(group, i int) net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, byte(group), byte(i/250), byte(1+i%250))}
}

// silence has an attacker from an address attack until ctx is done.
func silence(ctx context.Context, to string, from net.Addr, opened *atomic.Int64) {
	d := net.Dialer{Timeout: dialTimeout, LocalAddr: from}
	for ctx.Err() == nil {
		nc, err := d.DialContext(ctx, "tcp", to)
		if err != nil {
			program.Sleep(ctx, time.Millisecond) // no port is free
			continue
		}
		opened.Add(1)
		nc.(*net.TCPConn).SetLinger(0)
		stop := context.AfterFunc(ctx, func() { nc.Close() })
		io.Copy(io.Discard, nc)
		stop()
		nc.Close()
	}
}

// faults returns what is wrong of ours with a Capacity. One with Most refuses newcomers
// while all others are within the grace, so it only has to keep those that are idle.
func (f *flood) faults() (all []string) {
	if f.Variant != refusing && f.Variant != evicting && f.Variant != perKey {
		return nil
	}
	if n := f.Newcomers; f.Variant != refusing && n.Failed > 0 || n.Failed == n.Requests {
		all = append(all, fmt.Sprintf("%s: newcomers: %d of %d requests failed; the first: %s", f.Variant, n.Failed, n.Requests, n.Error))
	}
	if f.Kept < f.Idle || f.Idle == 0 {
		all = append(all, fmt.Sprintf("%s: %d of %d honest clients kept their connection", f.Variant, f.Kept, f.Idle))
	}
	return all
}

// floods writes the table of floods.
func (r *Report) floods(w io.Writer) {
	if r.Passed {
		table.Paragraph(w, "\nPASS: with a Capacity every honest client that was idle within the grace kept its connection, and no newcomer's request failed (with Most: not all).")
	}
	t := table.Table{
		Title:   fmt.Sprintf("\n%d silent attackers from %d addresses, descriptors for half of them; grace %v, timeouts of %v", r.Attackers, sources, r.cfg.Capacity, r.cfg.KeepAlive),
		Columns: []string{"variant", "newcomers' requests", "succeeded", "of due", "p50 ms", "p99 ms", "max ms", "idle ones kept", "attackers opened"}, Left: 1,
	}
	for _, f := range r.Floods {
		n := f.Newcomers
		t.Add(f.Variant, strconv.Itoa(n.Requests), percent(n.SuccessRate), percent(n.ServedRate), n.took(n.Latency.P50), n.took(n.Latency.P99), n.took(n.Latency.Max),
			fmt.Sprintf("%d of %d", f.Kept, f.Idle), strconv.FormatInt(f.Opened, 10))
	}
	t.Write(w)
}
