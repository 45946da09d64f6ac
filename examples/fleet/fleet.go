package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// A fleet is a NATS server, nodes and clients on one machine.
type fleet struct {
	options
	dir         string         // where the embedded server stores the buckets
	server      *server.Server // nil if it's somebody else's
	view        *node.Fleet
	crowd       *crowd
	meant       int            // connections of clients that scenes have ended
	result      map[string]any // for -json
	limits      node.Limits    // that were set last
	processes   []atomic.Pointer[os.Process]
	ended       []chan *os.ProcessState // has how a process ended, if nobody has looked since
	supervisors sync.WaitGroup
	cleanup     []func() // in reverse order
}

// patience is how long what should take seconds may take. The machine may be busy.
const patience = 2 * time.Minute

// startFleet starts a NATS server and the nodes, and has the clients connect.
func startFleet(ctx context.Context, o options) (f *fleet, err error) {
	f = &fleet{options: o, crowd: newCrowd(o), limits: node.DefaultLimits(), processes: make([]atomic.Pointer[os.Process], o.nodes),
		result: map[string]any{"nodes": o.nodes, "clients": o.clients}}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.nats == "" {
		if f.dir, err = os.MkdirTemp("", "idlewheel-fleet-"); err != nil {
			return f, err
		}
		f.cleanup = append(f.cleanup, func() { os.RemoveAll(f.dir) })
		if f.server, err = startNATS(f.dir, -1); err != nil {
			return f, err
		}
		f.cleanup = append(f.cleanup, func() { f.server.Shutdown(); f.server.WaitForShutdown() })
		f.nats = f.server.ClientURL()
	}
	if f.view, err = node.Connect(f.nats, "fleet", "view", o.replicas); err != nil {
		return f, err
	}
	running, done := context.WithCancel(context.Background()) // which Ctrl-C doesn't end, as the result isn't known then
	f.cleanup = append(f.cleanup, f.view.Close, f.supervisors.Wait, done, f.crowd.done)
	for i := range o.nodes {
		f.ended = append(f.ended, make(chan *os.ProcessState, 1))
		f.supervisors.Go(func() { f.supervise(running, i) })
	}
	if _, err = until(ctx, f.ready); err != nil {
		return f, err
	}
	log.Printf("%d nodes take clients; NATS is at %s", o.nodes, f.nats)
	f.crowd.connect()
	_, err = until(ctx, f.allFound)
	log.Printf("%d clients have connected", o.clients)
	return f, err
}

// startNATS starts a NATS server with JetStream in this process. If port is -1, it takes a free one.
func startNATS(dir string, port int) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return nil, fmt.Errorf("the embedded NATS server isn't ready after %v", patience)
	}
	return s, nil
}

func nodeName(i int) string   { return fmt.Sprint("node", i+1) }
func address(port int) string { return fmt.Sprint("127.0.0.1:", port) }

// supervise runs a node, and restarts it a second after it has ended, as an init system does.
func (f *fleet) supervise(ctx context.Context, i int) {
	config, _ := json.Marshal(node.Config{Name: nodeName(i), Fleet: "fleet", NATS: f.nats, Replicas: f.replicas,
		Address: address(f.port + i), Ops: address(f.ops + i), MaxConns: 18_000, Over: f.over})
	for ; ctx.Err() == nil; wait(ctx, time.Second) {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), nodeEnv+"="+string(config)), log.Writer()
		cmd.StdinPipe() // which is closed when this process ends, and then the node ends too
		if err := cmd.Start(); err != nil {
			log.Printf("%s can't be started: %v", nodeName(i), err)
			continue
		}
		f.processes[i].Store(cmd.Process)
		cmd.Wait()
		log.Printf("%s has ended: %v", nodeName(i), cmd.ProcessState)
		select {
		case f.ended[i] <- cmd.ProcessState:
		default:
		}
	}
}

// close ends everything.
func (f *fleet) close() {
	for _, end := range slices.Backward(f.cleanup) {
		end()
	}
}

// ready returns "" when all nodes take clients, and apply the limits that were set last.
func (f *fleet) ready(ctx context.Context) string {
	nodes, err := f.view.Nodes(ctx)
	for i := range f.nodes {
		if l := nodes[nodeName(i)]; !l.Open || l.Limits != f.limits.String() {
			return fmt.Sprintf("%s isn't ready, but %+v (%v)", nodeName(i), l, err)
		}
	}
	return ""
}

// allFound returns "" when each client is connected and found at its node, and the nodes have no others.
func (f *fleet) allFound(ctx context.Context) string {
	for _, c := range f.crowd.all {
		_, at := c.connection()
		if found, err := f.view.Who(c.name); err != nil || at == "" || found != at {
			return fmt.Sprintf("%s is at %q, and the nodes say at %q (%v)", c.name, at, found, err)
		}
	}
	nodes, err := f.view.Nodes(ctx)
	sum := 0
	for _, l := range nodes {
		sum += l.Clients
	}
	if sum != f.clients {
		return fmt.Sprintf("the nodes have %d clients, not %d (%v)", sum, f.clients, err)
	}
	return ""
}

// until waits until missing returns "", and returns how long that took. After patience, it fails
// with what is still missing.
func until(ctx context.Context, missing func(context.Context) string) (time.Duration, error) {
	for begun := time.Now(); ; wait(ctx, 50*time.Millisecond) {
		switch why, took := missing(ctx), time.Since(begun); {
		case ctx.Err() != nil:
			return took, ctx.Err()
		case why == "":
			return took, nil
		case took > patience:
			return took, fmt.Errorf("after %v: %s", took.Round(time.Second), why)
		}
	}
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
