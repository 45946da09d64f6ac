// Package node is a gateway that is one of a fleet. Package idlenet times its clients out. NATS
// does the rest: it keeps a lease for each node, passes limits on, and asks the nodes where a
// client is.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

// Config configures a node.
type Config struct {
	Name     string        // letters, digits, '-' and '_'; unique in the fleet
	Fleet    string        // the name of the fleet, likewise
	NATS     string        // URLs, separated by commas
	Replicas int           // NATS servers that store a bucket, if it has to be made
	Address  string        // for clients, as they reach it
	Ops      string        // for the page about connections, /metrics and /readyz; empty for none
	MaxConns int           // a few hundred less than the limit of descriptors
	Over     time.Duration // how long a drain takes
}

// A node is a gateway with its place in the fleet.
type node struct {
	config  Config
	fleet   *Fleet
	gateway *gateway
	joined  chan struct{}             // closed when the node has its first lease, and the limits of the fleet
	open    atomic.Bool               // it takes clients
	others  atomic.Pointer[[]string]  // addresses of other nodes that do
	turn    atomic.Uint64             // of the others, for clients that have to leave
	renewed atomic.Pointer[time.Time] // when the lease was; nil if there is none
	leases  atomic.Uint64             // that the node has had

	// These belong to the goroutine of join.
	bucket   jetstream.KeyValue
	revision uint64 // of the lease; 0 if there is none
}

// Run runs a node until SIGTERM has drained it, or until it fails: because a value in c is invalid,
// or because Address is taken. It waits for NATS before it serves clients. After that, it serves
// them whether NATS is there or not.
func Run(c Config) (err error) {
	n := &node{config: c, joined: make(chan struct{})}
	if n.gateway, err = newGateway(c.Name, c.MaxConns); err != nil {
		return err
	}
	if n.fleet, err = Connect(c.NATS, c.Fleet, c.Name, c.Replicas); err != nil {
		return err
	}
	defer n.fleet.Close()
	n.gateway.elsewhere, n.gateway.arrived = n.elsewhere, n.announce
	if err := n.subscribe(); err != nil {
		return err
	}
	if err := ops.Serve(c.Ops, map[string]*idle.Tracker{"fleet": n.gateway.tracker}, n.observe); err != nil {
		return err
	}
	member, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() { defer close(left); n.join(member) }()
	defer func() { leave(); <-left }() // before the connection to NATS is closed
	<-n.joined
	ln, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(terminated, func() { n.open.Store(false); ln.Close() })
	n.open.Store(true)
	if err := n.gateway.serve(ln); terminated.Err() == nil {
		return fmt.Errorf("%s no longer accepts clients: %w", c.Name, err)
	}
	return n.drain()
}

// drain sends all clients to other nodes, the most idle first, at an even rate. Each has a few seconds
// to connect there. A Drain includes newcomers, so there must be none.
func (n *node) drain() error {
	over, t := n.config.Over, n.gateway.tracker
	before := t.Stats()
	d, err := t.Drain(idle.Drain{Duration: over, CloseDelay: 5 * time.Second, ForceAfter: over + 20*time.Second})
	if err != nil {
		return err
	}
	<-d.Done()
	after := t.Stats()
	log.Printf("%s: drained: %d clients have left, %d were ended", n.config.Name, after.Closed-before.Closed, after.Drained-before.Drained)
	return nil
}

// elsewhere returns the addresses of the other nodes in turn, so that each gets the same share of
// the clients.
func (n *node) elsewhere() string {
	if others := n.others.Load(); others != nil && len(*others) > 0 {
		return (*others)[n.turn.Add(1)%uint64(len(*others))]
	}
	return ""
}

// announce tells the other nodes that a client has arrived. If NATS is away, an older connection
// elsewhere ends by its timeout.
func (n *node) announce(client string, session uint64) {
	n.fleet.nc.Publish(n.fleet.name+".arrived", fmt.Appendf(nil, "%s %d", client, session))
}

// subscribe answers the other nodes. The client library subscribes again after an outage.
func (n *node) subscribe() error {
	_, err := n.fleet.nc.Subscribe(n.fleet.name+".who", func(m *nats.Msg) {
		if n.gateway.has(string(m.Data)) {
			m.Respond([]byte(n.config.Name))
		}
	})
	_, err2 := n.fleet.nc.Subscribe(n.fleet.name+".arrived", func(m *nats.Msg) {
		client, number, _ := strings.Cut(string(m.Data), " ")
		if session, err := strconv.ParseUint(number, 10, 64); err == nil {
			n.gateway.takeOver(client, session)
		}
	})
	return errors.Join(err, err2)
}

// join keeps the node a member of the fleet until ctx is done. It starts over after any error,
// because the buckets may be gone. It also starts over when the connection to NATS is back: a server
// that was restarted has forgotten the watches, which the client library notices only after 10 s.
func (n *node) join(ctx context.Context) {
	for said := ""; ctx.Err() == nil; {
		membership, cancel := context.WithCancel(ctx)
		n.fleet.nc.SetReconnectHandler(func(*nats.Conn) { cancel() })
		err := n.member(membership)
		if err != nil && membership.Err() == nil && err.Error() != said {
			said = err.Error()
			log.Printf("%s: still trying to join: %v", n.config.Name, err)
		}
		cancel()
		time.Sleep(renewEvery / 4)
	}
	if n.revision != 0 { // if that fails, the lease expires
		n.bucket.Delete(context.Background(), n.config.Name, jetstream.LastRevision(n.revision))
	}
}

// member renews the lease, and follows the limits and the leases of the other nodes, until something
// fails or ctx is done.
func (n *node) member(ctx context.Context) error {
	nodes, control, err := n.fleet.buckets(ctx)
	if err != nil {
		return err
	}
	n.bucket = nodes
	leases, err := nodes.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer leases.Stop()
	limits, err := control.Watch(ctx, limitsKey)
	if err != nil {
		return err
	}
	defer limits.Stop()
	roster := map[string]string{}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case e, open := <-leases.Updates():
			if !open {
				return errors.New("NATS has ended the watch of leases")
			}
			if e != nil && e.Key() != n.config.Name {
				follow(roster, e)
			}
			others := slices.Sorted(maps.Values(roster))
			n.others.Store(&others)
			continue
		case e, open := <-limits.Updates():
			if !open {
				return errors.New("NATS has ended the watch of limits")
			}
			if e != nil && e.Operation() == jetstream.KeyValuePut {
				if err := n.gateway.setLimits(string(e.Value())); err != nil {
					log.Printf("%s: the limits stay as they are: %v", n.config.Name, err)
				}
			}
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := n.renew(ctx); err != nil {
			return err
		}
	}
}

// follow changes a roster, the addresses of open nodes, as an entry of the bucket says. When a lease
// expires or is deleted, that is an entry too, and not a put.
func follow(roster map[string]string, e jetstream.KeyValueEntry) {
	delete(roster, e.Key())
	var l Lease
	if e.Operation() == jetstream.KeyValuePut && json.Unmarshal(e.Value(), &l) == nil && l.Open {
		roster[e.Key()] = l.Address
	}
}

// lease returns what the node's lease says.
func (n *node) lease() Lease {
	g := n.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	return Lease{n.config.Address, n.open.Load(), len(g.clients), g.limits.String(), g.refused}
}

// renew renews the lease, or creates one. It replaces only the entry that this process has written.
// So of two processes with the same name the second one waits, and a node that was stopped for
// longer than leaseTTL finds out that its lease has expired.
func (n *node) renew(ctx context.Context) error {
	now := time.Now()
	text, _ := json.Marshal(n.lease()) // never fails
	var revision uint64
	var err error
	if n.revision == 0 {
		revision, err = n.bucket.Create(ctx, n.config.Name, text)
	} else {
		revision, err = n.bucket.Update(ctx, n.config.Name, text, n.revision)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		log.Printf("%s: the lease has expired", n.config.Name)
		n.revision = 0
		n.renewed.Store(nil)
	case errors.Is(err, jetstream.ErrKeyExists): // by the process before this one, or another one with this name
	case err != nil:
		return err
	default:
		n.renewed.Store(&now)
		if n.revision == 0 && n.leases.Add(1) == 1 {
			close(n.joined)
		}
		n.revision = revision
	}
	return nil
}
