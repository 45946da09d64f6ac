package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
)

// A peer is what the others see of a process: its lease, what it tells of its clients, and the
// directories that it keeps. A process that only keeps directories has no clients, and tells so.
type peer struct {
	name        string
	clients     bool // it is a gateway
	engine      engine
	presence    *presence
	leaser      *leaser
	roster      roster
	directories map[int]*directory.Directory // by partition

	outbox  chan nats.Msg
	dropped atomic.Uint64 // frames for which there was no way; clients repeat them

	leasesAgain, limitsAgain chan struct{} // restart the watches
}

// engine is what a peer needs of a *Fleet. The simulation has one in memory.
type engine interface {
	at(subject string) string
	Publish(subject string, data []byte) error
	Subscribe(subject string, handle nats.MsgHandler) (*nats.Subscription, error)
	IsConnected() bool
	leases(context.Context) (Store, error)
}

// newPeer returns a peer that has not met the others. lease returns what its lease says.
func newPeer(c Config, lease func() Lease) *peer {
	p := &peer{name: c.Name, clients: c.Address != "", presence: newPresence(c.Name, max(1, c.Partitions)),
		roster: roster{leases: map[string]Lease{}}, directories: map[int]*directory.Directory{},
		outbox: make(chan nats.Msg, engineBuffer), leasesAgain: make(chan struct{}, 1), limitsAgain: make(chan struct{}, 1)}
	p.leaser = &leaser{node: c.Name, owner: rand.Text(), value: lease, begun: p.presence.begin}
	p.leaser.open = func(ctx context.Context) (Store, error) { return p.engine.leases(ctx) }
	p.leaser.lost = func() {
		for _, d := range p.directories {
			d.CatchUp()
		}
		p.watchAgain() // the bucket may be another one
	}
	for _, partition := range c.Keeps {
		ask := func(node string) {
			p.send(p.engine.at(subjectSnapshot+node), strconv.AppendInt(nil, int64(partition), 10))
		}
		p.directories[partition] = directory.New(c.Name, ask, p.takeOver)
	}
	return p
}

// meet has the peer meet the others.
func (p *peer) meet(ctx context.Context) error {
	handlers := map[string]nats.MsgHandler{
		subjectSnapshot + p.name: func(m *nats.Msg) {
			if partition, err := strconv.Atoi(string(m.Data)); err == nil && uint(partition) < uint(len(p.presence.feeds)) {
				p.presence.resync(partition)
			}
		},
		subjectTakeOver + p.name: func(m *nats.Msg) {
			var c directory.Change
			if json.Unmarshal(m.Data, &c) == nil {
				p.presence.takeOver(c.Client, c.Session)
			}
		},
	}
	for partition, d := range p.directories {
		handlers[numbered(subjectPresence, partition)+".*"] = func(m *nats.Msg) {
			var b directory.Batch
			if json.Unmarshal(m.Data, &b) == nil {
				d.Apply(b)
			}
		}
	}
	for subject, handle := range handlers {
		if _, err := p.engine.Subscribe(p.engine.at(subject), handle); err != nil {
			return err
		}
	}
	go p.publish(ctx)
	go p.batches(ctx)
	go p.leaser.run(ctx)
	go p.watchLeases(ctx)
	return nil
}

// reconnected is called when the engine is back.
func (p *peer) reconnected() {
	p.presence.begin(0)
	p.watchAgain()
}

// watchAgain restarts the watches: the engine may tell changes late or never after an outage.
func (p *peer) watchAgain() {
	for _, again := range []chan struct{}{p.leasesAgain, p.limitsAgain} {
		select {
		case again <- struct{}{}:
		default:
		}
	}
}

// doubt has no directory here answer until it has heard everything again.
func (p *peer) doubt() {
	for _, d := range p.directories {
		d.Doubt()
	}
}

// takeOver ends an older session of a client. Where gateways keep directories, each ends its own.
func (p *peer) takeOver(node, client string, session uint64) {
	if node == p.name {
		p.presence.takeOver(client, session)
	} else if !p.clients {
		text, _ := json.Marshal(directory.Change{Client: client, Session: session})
		p.send(p.engine.at(subjectTakeOver+node), text)
	}
}

// watchLeases follows the leases of all peers.
func (p *peer) watchLeases(ctx context.Context) {
	var unseen map[string]Lease // leases that were known before the watch began
	expired := func(name string, epoch uint64) {
		p.roster.remove(name)
		for _, d := range p.directories {
			d.Expired(name, epoch)
		}
	}
	watch(ctx, p.engine.leases, p.leasesAgain, func() { unseen = p.roster.all() }, func(s Store, e jetstream.KeyValueEntry) {
		if e == nil {
			for name, l := range unseen {
				expired(name, l.Epoch)
			}
			unseen = nil
			return
		}
		delete(unseen, e.Key())
		number := s.Number(e.Revision())
		var l Lease
		if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &l) != nil {
			expired(e.Key(), number)
			return
		}
		if l.Epoch == 0 {
			l.Epoch = number
		}
		p.roster.set(e.Key(), l)
		for partition, d := range p.directories {
			if partition < len(l.Seq) {
				d.Renewed(e.Key(), l.Epoch, l.Seq[partition])
			}
		}
	})
}

// batches tells what has changed, at most once in batchEvery.
func (p *peer) batches(ctx context.Context) {
	for ctx.Err() == nil {
		p.tell()
		pause(ctx, batchEvery)
	}
}

// tell publishes a batch for each partition in which there is something to tell. While the
// engine is away nothing is told, and when it is back everything.
func (p *peer) tell() {
	for partition := range p.presence.feeds {
		if !p.engine.IsConnected() {
			return
		}
		if text := p.presence.next(partition); text != nil {
			if err := p.engine.Publish(p.engine.at(numbered(subjectPresence, partition)+"."+p.name), text); err != nil {
				p.presence.resync(partition)
			}
		}
	}
}

// send has a message published soon. It does not block, and it does not fail: what the
// engine does not take is lost.
func (p *peer) send(subject string, data []byte) {
	select {
	case p.outbox <- nats.Msg{Subject: subject, Data: data}:
	default:
		p.dropped.Add(1)
	}
}

// publish publishes what was sent. It is a goroutine of its own, as it blocks while the
// engine takes nothing.
func (p *peer) publish(ctx context.Context) {
	for {
		select {
		case m := <-p.outbox:
			if p.engine.Publish(m.Subject, m.Data) != nil {
				p.dropped.Add(1)
			}
		case <-ctx.Done():
			return
		}
	}
}

// ready reports whether the directories of this process miss nothing.
func (p *peer) ready() bool {
	for _, d := range p.directories {
		if !d.Complete() {
			return false
		}
	}
	return p.leaser.held()
}

// leave tells the last ends, and gives the lease back.
func (p *peer) leave() {
	p.tell()
	p.leaser.release(context.Background())
}
