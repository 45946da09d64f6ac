package node

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// subscribe has the node answer requests, and take letters.
func (n *Node) subscribe() error {
	handlers := map[string]nats.MsgHandler{
		subjectTo + n.name: func(m *nats.Msg) {
			if to, frame, ok := wire.CutName(m.Data); ok {
				n.deliver(to, frame)
			}
		},
		subjectWhoOf + n.name: n.answerWho,
		subjectState:          func(m *nats.Msg) { answer(m, n.state()) },
		subjectDrain + n.name: n.answerDrain,
	}
	for partition := range n.directories {
		handlers[numbered(subjectWho, partition)] = n.answerWho
	}
	for subject, handle := range handlers {
		if _, err := n.nc.Subscribe(n.nc.at(subject), handle); err != nil {
			return err
		}
	}
	return nil
}

// answerWho says where clients are. Only a process whose directories miss nothing answers. So
// one that was stopped is silent until it has caught up.
func (n *Node) answerWho(m *nats.Msg) {
	var clients []string
	if !n.ready() || json.Unmarshal(m.Data, &clients) != nil {
		return
	}
	places := map[string]directory.Place{}
	for _, c := range clients {
		if d := n.directories[directory.Partition(c, len(n.presence.feeds))]; d != nil {
			if p, ok := d.Find(c); ok {
				places[c] = p
			}
		}
	}
	answer(m, places)
}

// answerDrain begins a drain, and says why not if it does not.
func (n *Node) answerDrain(m *nats.Msg) {
	var over Duration
	err := json.Unmarshal(m.Data, &over)
	if err == nil {
		err = n.drain(time.Duration(over), false)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	answer(m, text)
}

// A State is what a process has, and what it has seen.
type State struct {
	Node       string            `json:"node"`
	Live       uint64            `json:"live"`       // connections
	Clients    int               `json:"clients"`    // that have said hello
	Ended      map[string]uint64 `json:"ended"`      // connections by what has ended them
	Ready      bool              `json:"ready"`      // it has its lease, and its directories miss nothing
	Peers      int               `json:"peers"`      // processes that have a lease
	Partitions int               `json:"partitions"` // of the fleet
	Keeps      []int             `json:"keeps"`      // the partitions whose directories are here
	Known      map[string]int    `json:"known"`      // clients in these directories, by node
	Dropped    uint64            `json:"dropped"`    // frames without a way
	Limits     Verdict           `json:"limits"`     // that hold
	Draining   bool              `json:"draining"`
	Spreads    bool              `json:"spreads"` // it sends on clients of which it has too many
	Lease      Lease             `json:"lease"`
	Epoch      uint64            `json:"epoch"`     // of the lease under which it tells who is here
	LeaseAge   float64           `json:"lease_age"` // seconds since it was renewed
	Engine     nats.Statistics   `json:"engine"`    // what has passed between node and engine
}

// lease returns what the lease says now.
func (n *Node) lease() Lease {
	clients, seq := n.presence.count()
	return Lease{Seq: seq, Clients: clients, Address: n.config.Address, Ops: n.config.Ops, Draining: n.draining.Load()}
}

func (n *Node) state() State {
	s := State{Node: n.name, Ended: map[string]uint64{}, Ready: n.ready(), Peers: len(n.roster.all()),
		Partitions: len(n.presence.feeds), Keeps: n.config.Keeps, Known: map[string]int{},
		Dropped: n.dropped.Load(), Limits: n.control.last(), Draining: n.draining.Load(), Spreads: n.spreads.Load(), Lease: n.lease(), Engine: n.nc.Stats()}
	s.Clients, s.Epoch = s.Lease.Clients, n.presence.speaksUnder()
	if at := n.leaser.renewed.Load(); at != nil {
		s.LeaseAge = time.Since(*at).Seconds()
	}
	for _, d := range n.directories {
		for name, known := range d.Known() {
			s.Known[name] += known
		}
	}
	if n.gateway == nil {
		return s
	}
	st := n.gateway.timeouts.Stats()
	s.Live, s.Ended["left"] = st.Live, st.Closed
	for reason, count := range st.ByReason() {
		if count > 0 && reason.String() != "shed" {
			s.Ended[reason.String()] = count
		}
	}
	for cause, count := range st.Causes {
		s.Ended[cause] = count
	}
	return s
}
