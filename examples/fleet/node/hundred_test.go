package node

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
)

var full = flag.Bool("full", false, "TestHundredNodes has a hundred nodes with a million clients each, and not ten with 20,000")

// A scale says how large a fleet is simulated.
type scale struct {
	nodes, perNode int // clients a node
	partitions     int
	copies         int     // directories of a partition, in processes of their own; 0 if gateways keep them
	weight         int     // clients that a client of the simulation stands for
	admit          float64 // handshakes a second that a gateway admits
	over           time.Duration
	atOnce         int // nodes that are drained at the same time in a rollout
	restarts       int // nodes that a rollout restarts; 0 for all
}

// TestHundredNodes has three things happen to a large fleet, and prints how long presence is not
// right, and what passes the engine. Of the partitions one is simulated, because the others are
// alike: their messages are counted, and a gateway has a share of its handshakes for each.
func TestHundredNodes(t *testing.T) {
	sc := scale{nodes: 10, perNode: 20_000, partitions: 4, copies: 2, weight: 10, admit: 2000, over: 20 * time.Second, atOnce: 2}
	inNodes := scale{nodes: 10, perNode: 20_000, partitions: 1, weight: 100, admit: 2000, over: 20 * time.Second, atOnce: 2}
	if testing.Short() {
		sc.perNode, inNodes.perNode = 2000, 5000
	}
	if *full {
		sc = scale{nodes: 100, perNode: 1_000_000, partitions: 32, copies: 2, weight: 1, admit: 2000, over: time.Minute, atOnce: 10}
		inNodes = scale{nodes: 30, perNode: 1_000_000, partitions: 1, weight: 1000, admit: 2000}
	}
	begin, rollout := sc, sc
	begin.restarts = sc.nodes / 5
	rollout.weight = 10 // it moves every client, and takes too long one by one; in tens there are fewer messages
	t.Logf("%-28s %8s %10s %12s %10s %12s %6s", "what happens", "right", "messages/s", "MB/s", "at most", "MB/s", "slow")
	for _, c := range []struct {
		what   string
		scale  scale
		happen func(*hundred)
	}{
		{"clients stay for an hour", sc, (*hundred).stay},
		{"the engine is away", sc, (*hundred).outage},
		{"a third of the nodes die", sc, (*hundred).thirdDies},
		{"a rollout of a fifth", begin, (*hundred).rollout},
		{"a rollout of all nodes", rollout, (*hundred).rollout},
		{"directories in gateways", inNodes, (*hundred).outage},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHundred(t, c.scale)
				h.what = c.what
				h.run(func() { c.happen(h) })
			})
		})
	}
}

// hundred is a simulation of one partition of a large fleet.
type hundred struct {
	*simulation
	scale
	t     *testing.T
	what  string
	begun time.Time
	lag   time.Duration // from a move until all directories know of it, the longest seen
}

// perArrival is what a directory's process needs for a change, on one core: see BenchmarkApply.
const perArrival = 2300 * time.Nanosecond

func newHundred(t *testing.T, sc scale) *hundred {
	h := &hundred{newSimulation(t, 1), sc, t, "", time.Time{}, 0}
	h.simulation.partitions, h.broker.weight = sc.partitions, sc.weight
	h.most = max(1, batchMost/sc.partitions/sc.weight)
	h.simulation.admit = sc.admit / float64(sc.partitions)
	h.cost, h.linkRate = perArrival, 125e6 // a Gbit/s
	h.fleet(sc.nodes, 0)
	for _, g := range h.gateways {
		if sc.copies > 0 {
			g.config.Keeps = nil
		}
	}
	for i := range sc.copies {
		h.keepers = append(h.keepers, &process{config: Config{Name: fmt.Sprint("directory", i), Partitions: sc.partitions, Keeps: []int{0}}})
	}
	return h
}

// ready populates the fleet.
func (h *hundred) ready() {
	var names []string
	for i := 0; len(names) < h.nodes*h.perNode/h.scale.partitions/h.scale.weight; i++ {
		if name := fmt.Sprintf("client-%08d", i); directory.Partition(name, h.scale.partitions) == 0 {
			names = append(names, name)
		}
	}
	h.populate(names)
	if took, wrong := h.settle(20*time.Minute, time.Second); wrong != "" {
		h.t.Fatalf("%v after the start %s", took, wrong)
	}
	time.Sleep(20 * time.Second)
	h.begin()
}

// begin begins to count.
func (h *hundred) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count, h.slow = map[int64]*traffic{}, 0
	h.begun = time.Now()
}

// report prints what has passed since h.begun, and what was right when.
func (h *hundred) report(right string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	processes := h.nodes + h.copies*h.scale.partitions
	others := float64(processes) / float64(h.nodes+h.copies) // leases: each is told to each
	var msgs, bytes, peakMsgs, peakBytes float64
	for _, c := range h.count {
		m := float64(c.msgs*h.scale.partitions) + float64(c.leaseMsgs)*others*others
		b := float64(c.bytes*h.scale.partitions) + float64(c.leaseBytes)*others*others
		msgs, bytes = msgs+m, bytes+b
		peakMsgs, peakBytes = max(peakMsgs, m), max(peakBytes, b)
	}
	seconds := float64(max(1, len(h.count)))
	h.t.Logf("%-28s %8s %10.0f %12.1f %10.0f %12.1f %6d", h.what, right, msgs/seconds, bytes/seconds/1e6, peakMsgs, peakBytes/1e6, h.slow)
}

// mustSettle waits until presence is right, and reports how long that took since the given time.
func (h *hundred) mustSettle(since time.Time) {
	_, wrong := h.settle(30*time.Minute, 100*time.Millisecond)
	h.report(fmt.Sprintf("%.1f s", time.Since(since).Seconds()))
	if wrong != "" {
		h.t.Errorf("%v later %s", time.Since(since), wrong)
	}
}

// follow notes how long directories need to know of a move, for one client in a hundred.
func (h *hundred) follow(c *simClient) {
	h.world.Lock()
	at, session, all := c.at, c.session, h.directories(0)
	h.world.Unlock()
	if at == nil || rand.IntN(100) > 0 {
		return
	}
	begun := time.Now()
	go func() {
		for _, d := range all {
			for h.running.Err() == nil {
				if p, _ := d.Find(c.name); p.Session >= session {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		h.world.Lock()
		defer h.world.Unlock()
		h.lag = max(h.lag, time.Since(begun))
	}()
}

// stay: each client stays for an hour, and connects to another node then.
func (h *hundred) stay() {
	h.ready()
	n := float64(len(h.clients)) / 3600 // moves a second
	for i, moved := 0, 0; i < 600; i++ {
		time.Sleep(batchEvery)
		for ; float64(moved) < n*float64(i)/10; moved++ {
			h.moveOne(h.clients[rand.IntN(len(h.clients))])
		}
	}
	h.report(fmt.Sprintf("%.2f s", h.lag.Seconds()))
}

// moveOne has a client connect to the next node that takes it.
func (h *hundred) moveOne(c *simClient) {
	for {
		to := h.gateways[rand.IntN(len(h.gateways))]
		if !to.draining.Load() {
			h.move(c, to, 50*time.Millisecond)
			h.follow(c)
			return
		}
	}
}

// outage: the engine is away for a minute, in which one client in a hundred connects elsewhere.
func (h *hundred) outage() {
	h.ready()
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(time.Second)
		for range len(h.clients) / 100 {
			c := h.clients[rand.IntN(len(h.clients))]
			h.move(c, h.gateways[rand.IntN(len(h.gateways))], 50*time.Millisecond)
		}
	}()
	h.broker.outage(time.Minute, false)
	<-done
	h.begin()
	h.mustSettle(h.begun)
}

// thirdDies: a third of the nodes die at once, and their clients connect to the others, which
// admit so many handshakes a second.
func (h *hundred) thirdDies() {
	h.ready()
	for _, g := range h.gateways[:h.nodes/3] {
		h.kill(g)
	}
	for connected := false; !connected; time.Sleep(100 * time.Millisecond) {
		h.world.Lock()
		connected = h.waiting == 0
		h.world.Unlock()
	}
	h.t.Logf("all clients are connected again after %.1f s", time.Since(h.begun).Seconds())
	h.mustSettle(h.begun)
}

// rollout: nodes are drained, some at a time, end, and start again.
func (h *hundred) rollout() {
	h.ready()
	for some := range slices.Chunk(h.gateways[:cmp.Or(h.restarts, h.nodes)], h.atOnce) {
		mine := map[*process][]*simClient{}
		for _, g := range some {
			g.draining.Store(true)
			mine[g] = nil
		}
		h.world.Lock()
		for _, c := range h.clients {
			if _, ok := mine[c.at]; ok {
				mine[c.at] = append(mine[c.at], c)
			}
		}
		h.world.Unlock()
		ticks := int(h.over / batchEvery)
		for i := range ticks {
			for _, g := range some {
				all := mine[g]
				for _, c := range all[len(all)*i/ticks : len(all)*(i+1)/ticks] {
					h.moveOne(c)
				}
			}
			time.Sleep(batchEvery)
		}
		time.Sleep(time.Second)
		for _, g := range some {
			g.p.leave()
			h.kill(g)
		}
		time.Sleep(time.Second)
		for _, g := range some {
			h.start(g)
		}
		time.Sleep(3 * time.Second)
	}
	begun := time.Now()
	_, wrong := h.settle(10*time.Minute, 100*time.Millisecond)
	h.report(fmt.Sprintf("%.2f s", h.lag.Seconds()))
	if wrong != "" {
		h.t.Errorf("%v after a rollout of %v: %s", time.Since(begun), begun.Sub(h.begun), wrong)
	}
	h.t.Logf("the rollout took %v", begun.Sub(h.begun).Round(time.Second))
}
