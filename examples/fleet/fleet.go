package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// options say what fleet is started.
type options struct {
	engine   string // its URL; empty to embed one
	fleet    string // its name: fleets with different ones may share an engine
	replicas int    // of buckets that are missing
	through  string // the URL by which nodes reach it, if that is another one
	clients  int
	nodes    int

	partitions  int // of presence; 0 means one
	directories int // processes that keep directories; 0 if the nodes keep them

	address  string // of the first node; the others have the ports that follow
	ops      string // of the page of the fleet; those of the nodes have the ports that follow; empty for none
	beat     time.Duration
	over     time.Duration
	duration time.Duration // 0 until it is interrupted
	kill     bool
	drain    bool
	wipe     bool                             // the engine loses its store
	neighbor bool                             // a second fleet runs on the same engine
	spread   time.Duration                    // see node.Config
	out      func(format string, args ...any) // what goes on
}

// A fleet is an engine, nodes, and crowds of clients.
type fleet struct {
	options
	dir    string
	server *server.Server // nil if the engine is somebody else's
	nc     *node.Fleet
	oracle *oracle
	done   context.CancelFunc
	ended  sync.WaitGroup // supervisors

	crowds []*mob
	rate   float64 // letters that all crowds together write a second

	mu        sync.Mutex // guards what follows
	processes []*process // nodes, and then directories
}

// A mob is a crowd as this process sees it.
type mob struct {
	p       *process
	ask     *json.Encoder
	answers chan report
}

// patience is for what takes a few seconds, however busy the machine is.
const patience = 2 * time.Minute

// crowdMost is how many clients a process has: they have to fit into its descriptors.
const crowdMost = 8000

// startFleet starts the engine, the nodes and the page.
func startFleet(ctx context.Context, o options) (f *fleet, err error) {
	ctx, done := context.WithCancel(ctx)
	f = &fleet{options: o, done: done, processes: make([]*process, o.processCount())}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if o.engine == "" {
		if f.dir, err = os.MkdirTemp("", "idlewheel-fleet-"); err != nil {
			return f, err
		}
		if f.server, err = startEngine(f.dir, -1); err != nil {
			return f, err
		}
		f.engine = f.server.ClientURL()
	}
	if f.nc, err = node.Connect(node.Config{Name: "fleet", Fleet: f.fleet, Engine: f.engine, Replicas: f.replicas, Partitions: f.partitions}); err != nil {
		return f, err
	}
	f.oracle = newOracle(f)
	for i := range f.processes {
		if err := f.start(i); err != nil {
			return f, err
		}
		f.ended.Go(func() { f.supervise(ctx, i) })
	}
	for deadline := time.Now().Add(patience); ; wait(ctx, 100*time.Millisecond) {
		states, err := f.nc.States(ctx, o.processCount(), time.Second)
		switch {
		case err != nil || allReady(states, o.processCount()):
			return f, err
		case time.Now().After(deadline):
			return f, fmt.Errorf("%d of %d processes answer after %v, and not all are ready", len(states), o.processCount(), patience)
		}
	}
}

func allReady(states []node.State, want int) bool {
	for _, s := range states {
		if !s.Ready || s.Peers != want {
			return false
		}
	}
	return len(states) == want
}

func nodeName(i int) string { return "node" + strconv.Itoa(i+1) }

// processCount returns how many processes the fleet has: nodes first, and then directories.
func (o options) processCount() int { return o.nodes + o.directories }

// nameOf returns the name of a process.
func (o options) nameOf(i int) string {
	if i >= o.nodes {
		return "directory" + strconv.Itoa(i-o.nodes+1)
	}
	return nodeName(i)
}

// keeps returns the partitions of which a process keeps a directory. If directories are
// processes of their own, two of them keep each, so one may end.
func (o options) keeps(i int) (partitions []int) {
	for p := range max(1, o.partitions) {
		if o.directories == 0 || i >= o.nodes && (p%o.directories == i-o.nodes || (p+1)%o.directories == i-o.nodes) {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// addressOf returns the address n ports after the first one. Port 0 stays as it is.
func addressOf(first string, n int) string {
	host, port, err := net.SplitHostPort(first)
	p, err2 := strconv.Atoi(port)
	if errors.Join(err, err2) != nil || p == 0 {
		return first
	}
	return net.JoinHostPort(host, strconv.Itoa(p+n))
}

func (f *fleet) addresses() (all []string) {
	for i := range f.nodes {
		all = append(all, addressOf(f.address, i))
	}
	return all
}

func (f *fleet) start(i int) error {
	c := node.Config{Name: f.nameOf(i), Fleet: f.fleet, Replicas: f.replicas, Engine: cmp.Or(f.through, f.engine),
		Partitions: f.partitions, Keeps: f.keeps(i), Most: 18_000, Over: f.over, Spread: f.spread}
	if i < f.nodes {
		c.Address = addressOf(f.address, i)
	}
	if f.ops != "" {
		c.Ops = addressOf(f.ops, i+1)
	}
	p, err := start("node", c)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes[i] = p
	return nil
}

// supervise starts a process again when it has ended, as the init system of a machine does.
func (f *fleet) supervise(ctx context.Context, i int) {
	for {
		err := f.node(i).cmd.Wait()
		if ctx.Err() != nil {
			return
		}
		f.out("%s has ended (%v), and is started again", f.nameOf(i), err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if err := f.start(i); err != nil {
			log.Print(err)
			return
		}
	}
}

func (f *fleet) node(i int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.processes[i]
}

// signal sends a signal to a node.
func (f *fleet) signal(i int, s syscall.Signal) error { return f.node(i).cmd.Process.Signal(s) }

// populate starts the clients.
func (f *fleet) populate() error {
	n := (f.clients + crowdMost - 1) / crowdMost
	for i := range n {
		p, err := start("crowd", order{
			From: i * f.clients / n, To: (i + 1) * f.clients / n, Clients: f.clients,
			Nodes: f.addresses(), Beat: f.beat, Ramp: 4000 / float64(n), Spread: 2 * time.Second, Sample: max(1, f.clients/100),
		})
		if err != nil {
			return err
		}
		m := &mob{p, json.NewEncoder(p.in), make(chan report)}
		f.crowds = append(f.crowds, m)
		go m.listen(f.oracle)
	}
	return nil
}

// listen passes on what a crowd says.
func (m *mob) listen(o *oracle) {
	defer close(m.answers)
	for d := json.NewDecoder(m.p.out); ; {
		var r report
		if d.Decode(&r) != nil {
			return
		}
		if r.Arrival != nil {
			go o.follow(*r.Arrival)
		} else {
			m.answers <- r
		}
	}
}

// report asks all crowds, and adds up what they say.
func (f *fleet) report(q question) (sum report, err error) {
	q.Rate = f.rate / float64(len(f.crowds))
	for _, m := range f.crowds {
		if err := m.ask.Encode(q); err != nil {
			return sum, err
		}
	}
	for _, m := range f.crowds {
		r, ok := <-m.answers
		if !ok {
			return sum, errors.New("a crowd has ended")
		}
		sum.Connected += r.Connected
		sum.Sent += r.Sent
		sum.Received += r.Received
		sum.Waiting += r.Waiting
		sum.Repeated += r.Repeated
		sum.Places = append(sum.Places, r.Places...)
		sum.Moves = append(sum.Moves, r.Moves...)
	}
	return sum, nil
}

// close ends all processes.
func (f *fleet) close() {
	f.done()
	for _, m := range f.crowds {
		m.p.in.Close()
		m.p.cmd.Wait()
	}
	for i := range f.processes {
		if p := f.node(i); p != nil {
			p.cmd.Process.Kill()
		}
	}
	f.ended.Wait()
	if f.nc != nil {
		f.nc.Close()
	}
	if f.server != nil {
		f.server.Shutdown()
		f.server.WaitForShutdown()
	}
	if f.dir != "" {
		os.RemoveAll(f.dir)
	}
}
