package node

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// presence has the clients of this node, and tells the fleet who comes and goes. Whatever
// they do, that is one message in batchEvery at most. Heartbeats cause none.
type presence struct {
	node string
	shed func(member) // tells a client that a later session is elsewhere, and ends this one

	mu      sync.Mutex // guards what follows
	members map[string]member
	changes map[string]change // since the last batch, by client
	epoch   uint64            // the lease under which the node speaks; 0 before the first
	seq     uint64            // of the last batch
	wanted  bool              // a snapshot has to begin
	rest    []string          // clients that the snapshot under way has not named yet
	part    int               // of that snapshot; 0 if none is under way
}

// A member is a client that has said hello.
type member struct {
	session uint64
	conn    *idlegnet.Conn
}

// A change is an arrival if Why is empty, and else the end of a session, and of those before
// it: of a client that comes and goes within a batch, only the last is told.
type change struct {
	Client  string `json:"c"`
	Session uint64 `json:"s"`
	Why     string `json:"w,omitempty"`
}

// A batch is what a node tells the directories at a time.
type batch struct {
	Node    string   `json:"node"`
	Epoch   uint64   `json:"epoch"`          // of its lease
	Seq     uint64   `json:"seq"`            // counts the batches of the epoch
	Part    int      `json:"part,omitempty"` // of a snapshot: 1 for the first
	Last    bool     `json:"last,omitempty"` // this part ends the snapshot
	Here    []change `json:"here,omitempty"`
	Changes []change `json:"changes,omitempty"`
}

const takenOver = "takeover" // the cause for which a session ends that a later one replaces

func newPresence(node string) *presence {
	return &presence{node: node, shed: shed, members: map[string]member{}, changes: map[string]change{}}
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
	if old, ok := p.members[client]; ok {
		if old.session >= session {
			return false
		}
		p.shed(old)
	}
	p.members[client] = member{session, conn}
	p.changes[client] = change{Client: client, Session: session}
	return true
}

// ended is idle.Options.OnEnds: the feed of all connections that have ended.
func (p *presence) ended(ends []idle.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range ends {
		client, session, ok := parseLabel(e.Label)
		if m, here := p.members[client]; !ok || !here || m.session != session {
			continue // it has not said hello, or a later session has replaced it
		}
		delete(p.members, client)
		why := e.Reason.String()
		if e.Reason == 0 {
			why = "left"
		}
		p.changes[client] = change{client, session, why}
	}
}

// takeOver ends the session of a client here if a later one is elsewhere.
func (p *presence) takeOver(client string, session uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.members[client]; ok && m.session < session {
		p.shed(m)
	}
}

// shed is presence.shed.
func shed(m member) {
	m.conn.Gnet().AsyncWrite(Frame{Bye, []byte("you have connected elsewhere")}.Append(nil), nil)
	m.conn.End(takenOver)
}

// find returns the connection of a client here, or nil.
func (p *presence) find(client string) *idlegnet.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[client].conn
}

// count returns how many clients are here, and the last batch.
func (p *presence) count() (clients int, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.members), p.seq
}

// speaksUnder returns the epoch under which the node speaks, or 0 if it has never had a lease.
// Before that nobody could find a client here, so none is admitted.
func (p *presence) speaksUnder() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// begin begins an epoch, with a snapshot of all clients.
func (p *presence) begin(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch, p.part, p.rest, p.wanted = epoch, 0, nil, true
}

// resync has a snapshot follow. Several directories may ask for one at the same time.
func (p *presence) resync() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
}

// next returns what to tell, or nothing.
func (p *presence) next() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == 0 {
		return nil
	}
	b := batch{Node: p.node, Epoch: p.epoch}
	if p.part == 0 && p.wanted {
		p.wanted, p.rest = false, make([]string, 0, len(p.members))
		for client := range p.members {
			p.rest = append(p.rest, client)
		}
		clear(p.changes) // the snapshot has them
	}
	for client, c := range p.changes {
		if len(b.Changes) == batchMost {
			break
		}
		b.Changes = append(b.Changes, c)
		delete(p.changes, client)
	}
	if p.rest != nil {
		p.part++
		b.Part = p.part
		n := min(len(p.rest), batchMost-len(b.Changes)) // changes do not wait for a long snapshot
		for _, client := range p.rest[:n] {
			if m, ok := p.members[client]; ok { // it may have ended since the first part
				b.Here = append(b.Here, change{Client: client, Session: m.session})
			}
		}
		if p.rest = p.rest[n:]; len(p.rest) == 0 {
			b.Last, p.rest, p.part = true, nil, 0
		}
	}
	if b.Part == 0 && len(b.Changes) == 0 {
		return nil
	}
	p.seq++
	b.Seq = p.seq
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
