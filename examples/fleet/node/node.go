// Package node is a gateway that is one of a fleet. Its clients speak frames over TCP, and
// package idlegnet times them out. The fleet meets in NATS, the engine: there a node has a
// lease, tells who comes and goes, takes limits, and passes on what clients send each other.
package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

// Config says what a node is.
type Config struct {
	Name     string        // letters, digits, '-' and '_'
	Fleet    string        // the name of the fleet, of the same characters; fleets may share an engine
	Engine   string        // the URL of NATS
	Replicas int           // of buckets that are missing; 0 means one
	Address  string        // for clients
	Ops      string        // for the page, the metrics and readiness; empty for none
	Most     int           // clients at a time: well below the limit of descriptors
	Over     time.Duration // how long a drain by SIGTERM takes
	Spread   time.Duration // how long the node takes to send on clients that it has too many of; 0 keeps them
}

// A Node is a gateway process.
type Node struct {
	name      string
	config    Config
	nc        *Fleet
	presence  *presence
	directory *directory
	leaser    *leaser
	control   *control
	gateway   *gateway

	outbox   chan *nats.Msg
	dropped  atomic.Uint64 // frames for which there was no way; clients repeat them
	draining atomic.Bool
	spreads  atomic.Bool             // clients are told to move because the node has more than its share
	ctx      context.Context         // of the node's life
	stop     context.CancelCauseFunc // ends it
}

// Run runs a node until it was drained, or has failed.
func Run(c Config) error {
	if !plain(c.Name, "-_") {
		return fmt.Errorf("Config.Name is %q; it must have letters, digits, '-' and '_' only, as it is part of subjects", c.Name)
	}
	n := &Node{name: c.Name, config: c, outbox: make(chan *nats.Msg, engineBuffer),
		presence: newPresence(c.Name), directory: newDirectory(c.Name)}
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	n.leaser = &leaser{node: c.Name, owner: rand.Text(), value: n.lease, begun: n.presence.begin}
	n.directory.takeOver = n.presence.takeOver
	n.directory.ask = func(node string) { n.send(n.nc.at(subjectSnapshot+node), nil) }
	n.leaser.open = func(ctx context.Context) (Store, error) { return n.nc.leases(ctx) }
	var err error
	if n.gateway, err = newGateway(n); err != nil {
		return err
	}
	go func() {
		n.stop(gnet.Run(n.gateway.timeouts, "tcp://"+c.Address, gnet.WithMulticore(true), gnet.WithReuseAddr(true)))
	}()
	<-n.ctx.Done()
	if err := context.Cause(n.ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // drained
}

// join has the node meet the others. The gateway serves clients whether the engine is there
// or not.
func (n *Node) join() error {
	n.control = &control{node: n.name, timeouts: n.gateway.timeouts, online: n.gateway.online,
		verdict: Verdict{Node: n.name, Limits: DefaultLimits()}}
	var err error
	if n.nc, err = Connect(n.config.Engine, n.config.Fleet, n.config.Replicas, n.name); err != nil {
		return err
	}
	err = ops.Serve(n.config.Ops, map[string]*idle.Tracker{"fleet": n.gateway.timeouts.Tracker()}, n.observe)
	if err != nil {
		return err
	}
	limits, leases := make(chan struct{}, 1), make(chan struct{}, 1)
	watchAgain := func() {
		for _, restart := range []chan struct{}{limits, leases} {
			select {
			case restart <- struct{}{}:
			default:
			}
		}
	}
	n.nc.SetDisconnectErrHandler(func(*nats.Conn, error) { n.directory.doubt() })
	n.nc.SetReconnectHandler(func(*nats.Conn) {
		n.presence.resync() // what was told while the engine went away may be lost
		watchAgain()
	})
	n.nc.SetClosedHandler(func(nc *nats.Conn) { // it would never come back: the supervisor starts another process
		n.stop(fmt.Errorf("the connection to the engine is closed for good: %w", nc.LastError()))
	})
	n.leaser.lost = func() {
		n.directory.doubt()
		watchAgain() // the bucket may be another one
	}
	if err := n.subscribe(); err != nil {
		return err
	}
	go n.drainOnSignal()
	go n.publish(n.ctx)
	go n.batches(n.ctx)
	go n.leaser.run(n.ctx)
	go n.spread(n.ctx)
	go watch(n.ctx, n.nc.Control, limits, n.control.begin, n.control.see, jetstream.IncludeHistory())
	go n.watchLeases(n.ctx, leases)
	return nil
}

// watchLeases has the directory follow the leases of all nodes.
func (n *Node) watchLeases(ctx context.Context, restart <-chan struct{}) {
	var unseen map[string]view // leases that were known before the watch began
	d := n.directory
	watch(ctx, n.nc.leases, restart, func() { unseen = d.live() }, func(s Store, e jetstream.KeyValueEntry) {
		if e == nil {
			for node, v := range unseen {
				d.expired(node, v.epoch)
			}
			unseen = nil
			return
		}
		delete(unseen, e.Key())
		number := s.Number(e.Revision())
		var l Lease
		if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &l) != nil {
			d.expired(e.Key(), number)
			return
		}
		if l.Epoch == 0 {
			l.Epoch = number
		}
		d.renewed(e.Key(), l)
	})
}

// batches tells what has changed, at most once in batchEvery.
func (n *Node) batches(ctx context.Context) {
	for ctx.Err() == nil {
		n.tell()
		pause(ctx, batchEvery)
	}
}

// tell publishes a batch, if there is something to tell. While the engine is away nothing is
// told, and when it is back everything.
func (n *Node) tell() {
	if !n.nc.IsConnected() {
		return
	}
	if text := n.presence.next(); text != nil {
		if err := n.nc.Publish(n.nc.at(subjectPresence+n.name), text); err != nil {
			n.presence.resync()
		}
	}
}

// send has a message published soon. It does not block, and it does not fail: what the
// engine does not take is lost.
func (n *Node) send(subject string, data []byte) {
	select {
	case n.outbox <- &nats.Msg{Subject: subject, Data: data}:
	default:
		n.dropped.Add(1)
	}
}

// publish publishes what was sent. It is a goroutine of its own, as it blocks while the
// engine takes nothing.
func (n *Node) publish(ctx context.Context) {
	for {
		select {
		case m := <-n.outbox:
			if n.nc.PublishMsg(m) != nil {
				n.dropped.Add(1)
			}
		case <-ctx.Done():
			return
		}
	}
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
	if !must && len(n.directory.others()) == 0 {
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
		n.leave()
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
		excess := n.directory.excess()
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

// leave tells the last ends, says who is left, and gives the lease back.
func (n *Node) leave() {
	time.Sleep(batchEvery) // the feed of ends is a tick behind
	n.tell()
	n.lastWord()
	n.leaser.release(context.Background())
	n.nc.Flush()
	n.stop(nil)
}

// lastWord tells those who watch the drain how many clients are left.
func (n *Node) lastWord() {
	clients, _ := n.presence.count()
	text, _ := json.Marshal(clients)
	if err := n.nc.Publish(n.nc.at(subjectDrained+n.name), text); err != nil {
		log.Printf("%s: nobody hears that the drain is over: %v", n.name, err)
	}
}
