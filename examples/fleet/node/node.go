// Package node is a gateway that is one of a fleet. Its clients speak frames over TCP, and
// package idlegnet times them out. The fleet meets in NATS, the engine: there a node has a
// lease, tells who comes and goes, takes limits, and passes on what clients send each other.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/examples/fleet/wire"
	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

// Config says what a process of the fleet is: a gateway, or one that only keeps directories.
type Config struct {
	Name       string        // letters, digits, '-' and '_'
	Fleet      string        // the name of the fleet, of the same characters; fleets may share an engine
	Engine     string        // the URL of NATS
	Replicas   int           // of buckets that are missing; 0 means one
	Partitions int           // of presence, the same in all processes of the fleet; 0 means one
	Keeps      []int         // the partitions of which this process keeps a directory
	Address    string        // for clients; empty for a process that only keeps directories
	Ops        string        // for the page, the metrics and readiness; empty for none
	Most       int           // clients at a time: 1.1 × Most and 17 for each CPU have to be well below the limit of descriptors
	Over       time.Duration // how long a drain by SIGTERM takes
	Spread     time.Duration // how long the node takes to send on clients that it has too many of; 0 keeps them
}

// A Node is a process of the fleet. It has no constructor and no methods for others: [Run] makes
// and runs it, and a [Fleet] asks it and drains it from any process.
type Node struct {
	*peer
	config  Config
	nc      *Fleet
	control *control
	gateway *gateway // nil if it only keeps directories
	answers memory

	draining atomic.Bool
	spreads  atomic.Bool             // clients are told to move because the node has more than its share
	ctx      context.Context         // of the node's life
	stop     context.CancelCauseFunc // ends it
}

// Run runs a node until it was drained, or has failed. It fails if Config is invalid, or an
// address is taken. It does not fail because the engine is away, refuses the credentials or is
// too old: it waits for it, and admits no clients before its first lease.
func Run(c Config) (err error) {
	if !wire.Plain(c.Name, "-_") {
		return fmt.Errorf("Config.Name is %q; it must have letters, digits, '-' and '_' only, as it is part of subjects", c.Name)
	}
	for _, p := range c.Keeps {
		if p < 0 || p >= max(1, c.Partitions) {
			return fmt.Errorf("Config.Keeps has %d; Config.Partitions is %d, so it may have 0 to %d", p, c.Partitions, max(1, c.Partitions)-1)
		}
	}
	n := &Node{config: c, answers: memory{free: make(chan struct{}, askMost)}}
	n.peer = newPeer(c, n.lease)
	n.control = &control{node: n.name, verdict: Verdict{Node: n.name, Limits: DefaultLimits()}}
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	if c.Address == "" {
		err = n.join()
	} else if n.gateway, err = newGateway(n); err == nil {
		go func() { n.stop(n.serve()) }()
	}
	if err != nil {
		return err
	}
	<-n.ctx.Done()
	if err := context.Cause(n.ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // drained
}

// serve serves clients, and returns why it does no longer.
func (n *Node) serve() error {
	ln, err := net.Listen("tcp", n.config.Address) // with WithReusePort a second process could have the same address
	if err != nil {
		return err
	}
	ln.Close()
	// Each loop accepts for itself. Otherwise a crowd that comes back is accepted faster than the loops
	// refuse those above Config.Most, and gnet stops when there are no descriptors left.
	err = gnet.Run(n.gateway.timeouts, "tcp://"+n.config.Address, gnet.WithMulticore(true), gnet.WithReuseAddr(true), gnet.WithReusePort(true))
	return fmt.Errorf("gnet has stopped serving clients: %v", err) // it may have no error after a failed accept
}

// join has the node meet the others. The gateway serves clients whether the engine is there
// or not.
func (n *Node) join() (err error) {
	if n.nc, err = Connect(n.config); err != nil {
		return err
	}
	n.engine = n.nc
	trackers := map[string]*idle.Tracker{}
	if n.gateway != nil {
		trackers["fleet"] = n.gateway.timeouts.Tracker()
		n.control.timeouts, n.control.online = n.gateway.timeouts, n.gateway.online
	}
	if err = ops.Serve(n.config.Ops, trackers, n.observe); err != nil {
		return err
	}
	n.nc.SetDisconnectErrHandler(func(*nats.Conn, error) { n.doubt() })
	n.nc.SetReconnectHandler(func(*nats.Conn) { n.reconnected() })
	n.nc.SetClosedHandler(func(nc *nats.Conn) { // it would never come back: the supervisor starts another process
		n.stop(fmt.Errorf("the connection to the engine is closed for good: %w", nc.LastError()))
	})
	if err := n.subscribe(); err != nil {
		return err
	}
	go n.drainOnSignal()
	if n.gateway != nil {
		go n.spread(n.ctx)
		go watch(n.ctx, n.nc.Control, n.limitsAgain, n.control.begin, n.control.see, jetstream.IncludeHistory())
	}
	return n.meet(n.ctx)
}

// drainOnSignal drains the node when SIGTERM asks for it.
func (n *Node) drainOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	if err := n.drain(n.config.Over, true); err != nil {
		log.Printf("%s: %v", n.name, err)
	}
}

// drain begins to send all clients to other nodes, the most idle first, at an even rate. When
// none is left the node ends. If there is no other node, it drains only if it must.
func (n *Node) drain(over time.Duration, must bool) error {
	if over <= 0 {
		return errors.New("a drain must take longer than 0")
	}
	if n.gateway == nil { // it has no clients
		go n.end()
		return nil
	}
	if !must && len(n.roster.others(n.name)) == 0 {
		return fmt.Errorf("%s is not drained: there is no other node that takes its clients", n.name)
	}
	n.draining.Store(true)
	o, err := n.gateway.timeouts.Tracker().Drain(idle.Drain{Duration: over, CloseDelay: drainGrace, ForceAfter: over + drainStop})
	if err != nil {
		return err
	}
	go func() {
		<-o.Done()
		p := o.Progress()
		log.Printf("%s: drained: %d clients were ended, %d have left by themselves", n.name, p.Ended, p.Gone)
		n.end()
	}()
	return nil
}

// spread sends clients on while the node has more than its share. A rollout leaves the node that
// was restarted last without any, and nobody else would send it some. Nodes come and go in a
// rollout, so an imbalance has to last for a while before it counts.
func (n *Node) spread(ctx context.Context) {
	if n.config.Spread <= 0 {
		return
	}
	for since := time.Now(); ctx.Err() == nil; pause(ctx, leaseEvery) {
		excess := n.roster.excess(n.name)
		if excess == 0 || n.draining.Load() {
			since = time.Now()
		}
		if time.Since(since) < spreadAfter {
			continue
		}
		o, err := n.gateway.timeouts.Tracker().Shed(idle.Shed{
			Phase: n.gateway.online, Max: excess, Cause: "spread",
			Duration: n.config.Spread, CloseDelay: drainGrace, ForceAfter: n.config.Spread + drainStop,
		})
		if err != nil {
			log.Printf("%s: %d clients too many stay: %v", n.name, excess, err)
			return
		}
		log.Printf("%s: sends %d clients to nodes that have fewer", n.name, excess)
		n.spreads.Store(true)
		<-o.Done()
		n.spreads.Store(false)
		since = time.Now()
	}
}

// end tells those who watch the drain how many clients are left, and ends the process.
func (n *Node) end() {
	time.Sleep(batchEvery) // the feed of ends is a tick behind
	text, _ := json.Marshal(n.lease().Clients)
	if err := n.nc.Publish(n.nc.at(subjectDrained+n.name), text); err != nil {
		log.Printf("%s: nobody hears that the drain is over: %v", n.name, err)
	}
	n.leave()
	n.nc.Flush()
	n.stop(nil)
}
