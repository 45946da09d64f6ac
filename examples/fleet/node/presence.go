package node

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
	"github.com/idlewheel/idlewheel/idle"
)

// presence has the clients of this node, and tells the fleet who comes and goes. Whatever
// they do, that is one message a partition in batchEvery at most. Heartbeats cause none.
type presence struct {
	node string
	shed func(client string, m directory.Member[*idlegnet.Conn]) // tells that a later session is elsewhere, and ends this one
	most int                                                     // how many clients a batch names, at most

	mu    sync.Mutex // guards what follows
	epoch uint64     // the lease under which the node speaks; 0 before the first
	feeds []directory.Feed[*idlegnet.Conn]
}

const takenOver = "takeover" // the cause for which a session ends that a later one replaces

func newPresence(node string, partitions int) *presence {
	return &presence{node: node, shed: shed, most: max(1, batchMost/partitions), feeds: make([]directory.Feed[*idlegnet.Conn], partitions)}
}

// feed returns the feed that tells of a client. p.mu is held.
func (p *presence) feed(client string) *directory.Feed[*idlegnet.Conn] {
	return &p.feeds[directory.Partition(client, len(p.feeds))]
}

// arrive notes a client that has said hello. It reports false if a later session of the
// client is here already, and if the node has never had a lease: nobody could find the
// client here. Later clients are welcome whether the node has its lease or not.
func (p *presence) arrive(client string, session uint64, conn *idlegnet.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == 0 {
		return false
	}
	f := p.feed(client)
	if old, ok := f.Find(client); ok {
		if old.Session >= session {
			return false
		}
		p.shed(client, old)
	}
	f.Arrive(client, directory.Member[*idlegnet.Conn]{Session: session, Conn: conn})
	return true
}

// ended is idle.Options.OnEnds: the feed of all connections that have ended. Those that have not
// said hello have another label.
func (p *presence) ended(ends []idle.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range ends {
		why := e.Reason.String()
		if e.Reason == 0 {
			why = "left"
		}
		if client, session, ok := parseLabel(e.Label); ok {
			p.feed(client).End(client, session, why)
		}
	}
}

// takeOver ends the session of a client here if a later one is elsewhere.
func (p *presence) takeOver(client string, session uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.feed(client).Find(client); ok && m.Session < session {
		p.shed(client, m)
	}
}

// shed is presence.shed.
func shed(_ string, m directory.Member[*idlegnet.Conn]) {
	m.Conn.Gnet().AsyncWrite(wire.Frame{Kind: wire.Bye, Body: []byte("you have connected elsewhere")}.Append(nil), nil)
	m.Conn.End(takenOver)
}

// find returns the connection of a client here, or nil.
func (p *presence) find(client string) *idlegnet.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, _ := p.feed(client).Find(client)
	return m.Conn
}

// count returns how many clients are here, and the last batch of each partition.
func (p *presence) count() (clients int, seq []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.feeds {
		clients += p.feeds[i].Len()
		seq = append(seq, p.feeds[i].Seq)
	}
	return clients, seq
}

// speaksUnder returns the epoch under which the node speaks, or 0 if it has never had a lease.
// Before that nobody could find a client here, so none is admitted.
func (p *presence) speaksUnder() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// begin begins an epoch, with a snapshot of all clients. An epoch of 0 tells everything again
// under the one that there is: batches that were under way may be lost.
func (p *presence) begin(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = cmp.Or(epoch, p.epoch)
	for i := range p.feeds {
		p.feeds[i].Begin()
	}
}

// resync has a snapshot of a partition follow.
func (p *presence) resync(partition int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feeds[partition].Resync()
}

// next returns what to tell a partition, or nothing.
func (p *presence) next(partition int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == 0 {
		return nil
	}
	b, ok := p.feeds[partition].Next(p.most)
	if !ok {
		return nil
	}
	b.Node, b.Epoch = p.node, p.epoch
	text, _ := json.Marshal(b) // strings and numbers: it cannot fail
	return text
}

// label is what a session is called in idle.End, and on the page.
func label(client string, session uint64) string {
	return strconv.FormatUint(session, 10) + " " + client
}

// parseLabel returns what label was given.
func parseLabel(text string) (client string, session uint64, ok bool) {
	number, client, ok := strings.Cut(text, " ")
	session, err := strconv.ParseUint(number, 10, 64)
	return client, session, ok && err == nil
}
