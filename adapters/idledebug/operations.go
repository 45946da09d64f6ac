package idledebug

import (
	"slices"
	"sync"

	"github.com/idlewheel/idlewheel/idle"
)

// maxFinished is how many operations are shown after they have finished.
const maxFinished = 3

// operations gives ids to the operations of a tracker.
type operations struct {
	ids      issuer
	mu       sync.Mutex
	next     uint64
	current  []*identified
	finished []operation // the last ones, the newest last
}

type identified struct {
	id string
	op *idle.Operation
}

// operation is the JSON of an operation.
type operation struct {
	ID       string  `json:"id"`
	Kind     string  `json:"kind"` // drain or shed
	Cause    string  `json:"cause,omitempty"`
	Met      int     `json:"met"`
	Ended    int     `json:"ended"`
	Gone     int     `json:"gone"`
	Left     int     `json:"left"`
	Told     int     `json:"told"`
	InUse    int     `json:"in_use"`
	Elapsed  seconds `json:"elapsed"`
	Expected seconds `json:"expected"`
	Paused   bool    `json:"paused"`
	Finished bool    `json:"finished"`
}

// show returns all operations of t that are under way, and the last ones that have
// finished since somebody looked, the oldest first.
func (o *operations) show(t *idle.Tracker) []operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, op := range t.Operations() {
		o.identify(op)
	}
	running := []operation{}
	o.current = slices.DeleteFunc(o.current, func(n *identified) bool {
		now := n.json()
		if now.Finished {
			o.finished = append(o.finished, now)
		} else {
			running = append(running, now)
		}
		return now.Finished
	})
	o.finished = o.finished[max(0, len(o.finished)-maxFinished):]
	return append(append([]operation{}, o.finished...), running...)
}

// add returns the JSON of an operation that has just begun.
func (o *operations) add(op *idle.Operation) operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.identify(op).json()
}

// find returns an operation that has not finished, or nil.
func (o *operations) find(id string) *idle.Operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.current {
		if n.id == id {
			return n.op
		}
	}
	return nil
}

// identify returns op with its id. o.mu must be held.
func (o *operations) identify(op *idle.Operation) *identified {
	for _, n := range o.current {
		if n.op == op {
			return n
		}
	}
	o.next++
	n := &identified{o.ids.id(o.next), op}
	o.current = append(o.current, n)
	return n
}

func (n *identified) json() operation {
	p := n.op.Progress()
	select {
	case <-n.op.Done():
		p.Finished = true
	default:
	}
	return operation{
		n.id, n.op.Reason().String(), n.op.Cause(), p.Met, p.Ended, p.Gone, p.Left, p.Told, p.InUse,
		inSeconds(p.Elapsed), inSeconds(p.Expected), p.Paused, p.Finished,
	}
}
