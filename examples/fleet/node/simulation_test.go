package node

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/idle"
)

// This file simulates fleets in virtual time: peers as they are, over an engine in memory.

var trials = flag.Int("trials", 10, "how many random trials TestTrials makes")

// A simulation is a fleet and its clients.
type simulation struct {
	*broker
	partitions int
	most       int     // clients a batch of a partition, in clients of the simulation
	admit      float64 // handshakes a second that a gateway admits
	gateways   []*process
	keepers    []*process // directories as processes of their own
	running    context.Context

	world    sync.Mutex // guards what follows
	sessions uint64
	clients  []*simClient
	waiting  int // clients that are not connected
}

// A process is one that may die and be started again.
type process struct {
	config   Config
	p        *peer
	die      func()
	alive    bool
	draining atomic.Bool
	free     time.Time // when the gateway can admit the next client
}

// A simClient stands for weight clients.
type simClient struct {
	name    string
	at      *process // nil while it is not connected
	session uint64
	backoff time.Duration
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	before := log.Writer()
	log.SetOutput(io.Discard) // leases come and go
	t.Cleanup(func() { log.SetOutput(before) })
	return &simulation{broker: newBroker(seed), partitions: 1, most: batchMost, admit: 1e9}
}

// start starts a process.
func (s *simulation) start(p *process) {
	s.world.Lock()
	defer s.world.Unlock()
	ctx, die := context.WithCancel(s.running)
	p.alive, p.die, p.free = true, die, time.Now()
	p.draining.Store(false)
	var mine *peer
	mine = newPeer(p.config, func() Lease {
		clients, seq := mine.presence.count()
		return Lease{Seq: seq, Clients: clients * s.weight, Address: p.config.Address, Ops: p.config.Address, Draining: p.draining.Load()}
	})
	mine.presence.most = s.most
	mine.presence.shed = func(client string, m directory.Member[*idlegnet.Conn]) {
		time.AfterFunc(10*time.Millisecond, func() { mine.presence.end(client, m.Session, takenOver) })
	}
	p.p = mine
	s.connect(ctx, mine)
	mine.meet(ctx)
}

// end ends the session of a client.
func (p *presence) end(client string, session uint64, why string) {
	p.ended([]idle.End{{Label: label(client, session), Reason: idle.ReasonShed, Cause: why}})
}

// kill kills a process. Its clients come back elsewhere, within two seconds at first.
func (s *simulation) kill(p *process) {
	s.world.Lock()
	defer s.world.Unlock()
	p.alive = false
	p.die()
	for _, c := range s.clients {
		if c.at == p {
			s.lose(c)
		}
	}
}

// lose has a client come back. s.world is held.
func (s *simulation) lose(c *simClient) {
	c.at, c.backoff = nil, 2*time.Second
	s.waiting++
	s.comeBack(c)
}

// comeBack has a client try again after a while. s.world is held.
func (s *simulation) comeBack(c *simClient) {
	time.AfterFunc(rand.N(c.backoff), func() {
		s.world.Lock()
		defer s.world.Unlock()
		if s.running.Err() != nil {
			return
		}
		c.backoff = min(2*c.backoff, 30*time.Second)
		to := s.gateways[rand.IntN(len(s.gateways))]
		if queue := time.Until(to.free); to.alive && !to.draining.Load() && queue < time.Duration(DefaultLimits().Handshake) {
			if to.free.Before(time.Now()) {
				to.free = time.Now()
			}
			to.free = to.free.Add(time.Duration(float64(s.weight) / s.admit * float64(time.Second)))
			time.AfterFunc(max(0, queue), func() { s.arrive(c, to) })
			return
		}
		s.comeBack(c)
	})
}

// arrive connects a client.
func (s *simulation) arrive(c *simClient, to *process) {
	s.world.Lock()
	defer s.world.Unlock()
	switch {
	case s.running.Err() != nil || c.at != nil:
	case s.place(c, to):
		s.waiting--
	default:
		s.comeBack(c)
	}
}

// place begins a session at a gateway, if that takes it. s.world is held.
func (s *simulation) place(c *simClient, to *process) bool {
	s.sessions++
	if !to.alive || to.draining.Load() || !to.p.presence.arrive(c.name, s.sessions, nil) {
		return false
	}
	c.at, c.session = to, s.sessions
	return true
}

// move has a client connect to another gateway, and close the old connection after a while.
func (s *simulation) move(c *simClient, to *process, late time.Duration) {
	s.world.Lock()
	defer s.world.Unlock()
	from, old := c.at, c.session
	if from == nil || from == to || !s.place(c, to) {
		return
	}
	mine := from.p.presence
	time.AfterFunc(late, func() { mine.end(c.name, old, "left") })
}

// directories returns the directories of a partition. s.world is held.
func (s *simulation) directories(partition int) (all []*directory.Directory) {
	for _, p := range slices.Concat(s.gateways, s.keepers) {
		if d := p.p.directories[partition]; d != nil && p.alive {
			all = append(all, d)
		}
	}
	return all
}

// wrong says what is not right, or nothing.
func (s *simulation) wrong() string {
	s.world.Lock()
	defer s.world.Unlock()
	if s.waiting > 0 {
		return fmt.Sprintf("%d clients are not connected", s.waiting)
	}
	for _, p := range slices.Concat(s.gateways, s.keepers) {
		if p.alive && !p.p.ready() {
			return fmt.Sprintf("%s is not ready; it holds its lease: %t, of %d", p.p.name, p.p.leaser.held(), len(p.p.roster.all()))
		}
	}
	size := make([]int, s.partitions)
	for _, c := range s.clients {
		size[directory.Partition(c.name, s.partitions)]++
	}
	for partition, want := range size {
		for i, d := range s.directories(partition) {
			if d.Size() != want {
				return fmt.Sprintf("directory %d of partition %d has %d clients; want %d", i, partition, d.Size(), want)
			}
		}
	}
	for _, c := range s.clients {
		for i, d := range s.directories(directory.Partition(c.name, s.partitions)) {
			if got, _ := d.Find(c.name); got != (directory.Place{Node: c.at.p.name, Session: c.session}) {
				return fmt.Sprintf("%s is at %s, session %d, and directory %d says %+v", c.name, c.at.p.name, c.session, i, got)
			}
		}
	}
	return ""
}

// settle waits until all is right, and returns how long that took and what is still wrong.
func (s *simulation) settle(most, step time.Duration) (took time.Duration, wrong string) {
	begun := time.Now()
	for {
		wrong = s.wrong()
		if took = time.Since(begun); wrong == "" || took > most {
			return took, wrong
		}
		time.Sleep(step)
	}
}

// run runs f in a fleet, and ends that.
func (s *simulation) run(f func()) {
	var end func()
	s.running, end = context.WithCancel(context.Background())
	defer func() {
		end()
		time.Sleep(time.Minute) // whatever waits sees that
		synctest.Wait()
	}()
	go s.sweep(s.running)
	for _, p := range slices.Concat(s.gateways, s.keepers) {
		s.start(p)
	}
	f()
}

// populate spreads clients over all gateways.
func (s *simulation) populate(clients []string) {
	for _, g := range s.gateways {
		for g.p.presence.speaksUnder() == 0 {
			time.Sleep(batchEvery)
		}
	}
	s.world.Lock()
	defer s.world.Unlock()
	for i, name := range clients {
		c := &simClient{name: name}
		s.clients = append(s.clients, c)
		s.place(c, s.gateways[i%len(s.gateways)])
	}
}

// TestTrials makes small fleets of random shape, has random faults happen to them, and checks
// that everything is right soon after, and quiet. Some have processes that cannot take what
// nodes tell them if all tell everything at once.
func TestTrials(t *testing.T) {
	var longest time.Duration
	count := 0
	for seed := range uint64(*trials) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { longest = max(longest, trial(t, seed)) })
		})
		if !ok {
			t.Fatal("stopped at the first trial that fails")
		}
		count++
	}
	t.Logf("%d trials: everything was right at most %v after the last fault", count, longest)
}

// ends is how long a state may last that no fault feeds any more.
const ends = 5 * time.Minute

func trial(t *testing.T, seed uint64) (took time.Duration) {
	s := newSimulation(t, seed)
	r := rand.New(rand.NewPCG(seed, 2))
	s.partitions = 1 << r.IntN(3)
	nodes, keepers := 2+r.IntN(5), r.IntN(4)
	s.most = 1 + r.IntN(10)
	load := 0.1 + 2.9*r.Float64() // of a directory's process while all nodes tell all they have
	s.cost = time.Duration(load * float64(batchEvery) / float64(s.most*nodes*s.partitions))
	s.pendingMost = (3 + r.IntN(10)) * nodes * s.partitions * (200 + 50*s.most) // what comes in 0.3 s or more: with 64 MB and 100 nodes it is that
	s.fleet(nodes, keepers)
	var names []string
	for i := range 20 + r.IntN(100) {
		names = append(names, fmt.Sprint("client-", i))
	}
	s.run(func() {
		s.populate(names)
		if took, wrong := s.settle(ends, 500*time.Millisecond); wrong != "" {
			t.Fatalf("at the start, after %v: %s; %d nodes, %d keepers, %d partitions, load %.1f, %d lost as slow", took, wrong, nodes, keepers, s.partitions, load, s.slow)
		}
		var faults []string
		for range 1 + r.IntN(6) {
			faults = append(faults, s.fault(r))
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
		var wrong string
		if took, wrong = s.settle(ends, 500*time.Millisecond); wrong != "" {
			t.Fatalf("%v after %q: %s; %d nodes, %d keepers, %d partitions, load %.1f, %d lost as slow", took, faults, wrong, nodes, keepers, s.partitions, load, s.slow)
		}
		time.Sleep(40 * time.Second) // half-open connections have timed out
		before := s.asked()
		time.Sleep(20 * time.Second)
		if wrong := s.wrong(); wrong != "" || s.asked() != before {
			t.Fatalf("a minute after %q: %s; %d snapshots were asked for in 20 s", faults, wrong, s.asked()-before)
		}
		t.Logf("right %v after %q; load %.1f", took, faults, load)
	})
	return took
}

// asked returns how many snapshots were ever asked for by the processes that are alive.
func (s *simulation) asked() (n uint64) {
	s.world.Lock()
	defer s.world.Unlock()
	for partition := range s.partitions {
		for _, d := range s.directories(partition) {
			n += d.Snapshots.Load()
		}
	}
	return n
}

// fleet has gateways, and processes that keep directories. If there are none, gateways do.
func (s *simulation) fleet(nodes, keepers int) {
	keeps := func(i, of int) (all []int) {
		for p := range s.partitions {
			if p%of == i || (p+1)%of == i {
				all = append(all, p)
			}
		}
		return all
	}
	for i := range nodes {
		g := &process{config: Config{Name: fmt.Sprint("node", i), Partitions: s.partitions, Address: fmt.Sprint("10.0.0.", i, ":9011")}}
		if keepers == 0 {
			g.config.Keeps = keeps(0, 1)
		}
		s.gateways = append(s.gateways, g)
	}
	for i := range keepers {
		s.keepers = append(s.keepers, &process{config: Config{Name: fmt.Sprint("directory", i), Partitions: s.partitions, Keeps: keeps(i, keepers)}})
	}
}

// fault has something happen, and says what.
func (s *simulation) fault(r *rand.Rand) string {
	all := slices.Concat(s.gateways, s.keepers)
	p := all[r.IntN(len(all))]
	s.mu.Lock()
	l := s.links[p.config.Name]
	s.mu.Unlock()
	d := time.Duration(100+r.IntN(9000)) * time.Millisecond
	set := func(delay time.Duration, loss float64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.delay, s.loss = delay, loss
	}
	switch r.IntN(8) {
	case 0:
		s.outage(d, false)
		return fmt.Sprint("outage of ", d)
	case 1:
		s.outage(d, true)
		return "lost store"
	case 2:
		if l == nil {
			return "nothing"
		}
		l.sever(true, time.Duration(r.IntN(6000))*time.Millisecond)
		time.Sleep(d)
		l.sever(false, 0)
		return fmt.Sprint(p.config.Name, " is cut off for ", d)
	case 3:
		set(2*time.Millisecond, 0.3*r.Float64())
		time.Sleep(d)
		set(2*time.Millisecond, 0)
		return "losses"
	case 4:
		set(time.Duration(r.IntN(500))*time.Millisecond, 0)
		time.Sleep(d)
		set(2*time.Millisecond, 0)
		return "delays"
	case 5:
		s.kill(p)
		time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
		s.start(p)
		return p.config.Name + " is killed"
	case 6:
		if l == nil {
			return "nothing"
		}
		s.mu.Lock()
		l.stopped = time.Now().Add(d)
		s.mu.Unlock()
		time.Sleep(d)
		return fmt.Sprint(p.config.Name, " is stopped for ", d)
	}
	for range 2 * len(s.clients) {
		late := time.Duration(r.IntN(1000)) * time.Millisecond
		if r.IntN(5) == 0 {
			late = time.Duration(DefaultLimits().Idle) // the old connection is half-open
		}
		s.move(s.clients[r.IntN(len(s.clients))], s.gateways[r.IntN(len(s.gateways))], late)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
	return "clients move"
}

// TestDeadNode: the clients of a node that was killed are gone when its lease has run out, and not
// long after. So they are if it was stopped.
func TestDeadNode(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, 1)
			s.fleet(3, 0)
			s.run(func() {
				var names []string
				for i := range 30 {
					names = append(names, fmt.Sprint("client-", i))
				}
				s.populate(names)
				if _, wrong := s.settle(ends, batchEvery); wrong != "" {
					t.Fatal(wrong)
				}
				dead := s.gateways[2]
				begun := time.Now()
				if stopped {
					s.mu.Lock()
					s.links[dead.config.Name].stopped = begun.Add(time.Minute)
					s.mu.Unlock()
				} else {
					dead.die()
				}
				for _, g := range s.gateways[:2] {
					d := g.p.directories[0]
					for d.Known()[dead.config.Name] > 0 {
						if time.Since(begun) > leaseTTL+time.Second {
							t.Fatalf("after %v %s knows %v", time.Since(begun), g.config.Name, d.Known())
						}
						time.Sleep(batchEvery)
					}
					if n := d.Size(); n != 20 {
						t.Errorf("%s knows %d clients, want 20", g.config.Name, n)
					}
				}
			})
		})
	}
}
