package node

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
)

// subscribe has the node answer requests, and follow what others tell.
func (n *Node) subscribe() error {
	nc := n.nc
	if _, err := nc.QueueSubscribe(nc.at(subjectWho), who, n.answerWho); err != nil {
		return err
	}
	for subject, handle := range map[string]nats.MsgHandler{
		subjectPresence + "*": func(m *nats.Msg) {
			var b batch
			if json.Unmarshal(m.Data, &b) == nil {
				n.directory.apply(b)
			}
		},
		subjectSnapshot + n.name: func(*nats.Msg) { n.presence.resync() },
		subjectTo + n.name: func(m *nats.Msg) {
			if to, frame, ok := cutName(m.Data); ok {
				n.deliver(to, frame)
			}
		},
		subjectWhoAll:         n.answerWho,
		subjectWhoOf + n.name: n.answerWho,
		subjectState:          func(m *nats.Msg) { answer(m, n.state()) },
		subjectDrain + n.name: n.answerDrain,
	} {
		if _, err := nc.Subscribe(nc.at(subject), handle); err != nil {
			return err
		}
	}
	return nil
}

// A Place is a node and the session that a client has there. A later session has a greater
// number.
type Place struct {
	Node    string `json:"node"`
	Session uint64 `json:"session"`
}

// answerWho says where clients are. Only a directory that misses nothing answers. So one
// whose node was stopped is silent until it has caught up: its own snapshot comes to it
// after all that it had missed.
func (n *Node) answerWho(m *nats.Msg) {
	var clients []string
	if !n.ready() || json.Unmarshal(m.Data, &clients) != nil {
		return
	}
	places := map[string]Place{}
	for _, c := range clients {
		if p, ok := n.directory.find(c); ok {
			places[c] = p
		}
	}
	answer(m, places)
}

// ready reports whether the directory of this node misses nothing.
func (n *Node) ready() bool {
	return n.leaser.held() && n.directory.complete()
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

// A State is what a node has, and what it has seen.
type State struct {
	Node     string            `json:"node"`
	Live     uint64            `json:"live"`    // connections
	Clients  int               `json:"clients"` // that have said hello
	Ended    map[string]uint64 `json:"ended"`   // connections by what has ended them
	Ready    bool              `json:"ready"`   // the directory misses nothing
	Known    map[string]int    `json:"known"`   // clients in the directory, by node
	Dropped  uint64            `json:"dropped"` // frames without a way
	Limits   Verdict           `json:"limits"`  // that hold
	Draining bool              `json:"draining"`
	Spreads  bool              `json:"spreads"` // it sends on clients of which it has too many
	Lease    Lease             `json:"lease"`
	Epoch    uint64            `json:"epoch"`     // of the lease under which it tells who is here
	LeaseAge float64           `json:"lease_age"` // seconds since it was renewed
	Engine   nats.Statistics   `json:"engine"`    // what has passed between node and engine
}

// lease returns what the lease says now.
func (n *Node) lease() Lease {
	clients, seq := n.presence.count()
	return Lease{Seq: seq, Clients: clients, Address: n.config.Address, Ops: n.config.Ops, Draining: n.draining.Load()}
}

func (n *Node) state() State {
	st := n.gateway.timeouts.Stats()
	s := State{Node: n.name, Live: st.Live, Ended: map[string]uint64{"left": st.Closed}, Ready: n.ready(), Known: map[string]int{},
		Dropped: n.dropped.Load(), Limits: n.control.last(), Draining: n.draining.Load(), Spreads: n.spreads.Load(), Lease: n.lease(), Engine: n.nc.Stats()}
	s.Clients, s.Epoch = s.Lease.Clients, n.presence.speaksUnder()
	if at := n.leaser.renewed.Load(); at != nil {
		s.LeaseAge = time.Since(*at).Seconds()
	}
	for name, v := range n.directory.live() {
		s.Known[name] = v.known
	}
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
