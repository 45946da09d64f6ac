// Package contender has the ways in which a Go server can notice that a
// connection has gone stale, all behind one interface.
//
// None is tuned to a workload. Each is used as its own documentation says, or,
// where that does not work, in the way that does, which its Note then tells.
package contender

import (
	"fmt"
	"time"
)

// A Contender times connections, numbered from 0, and says which of them were
// not active for its timeout.
//
// Touch may be called by several goroutines at once for different connections;
// nothing else may be.
type Contender interface {
	// Arm begins to time a connection, as active just now.
	Arm(i int)

	// Cancel ends the timing of a connection, which is armed. It may be armed
	// again.
	Cancel(i int)

	// Touch notes an activity of each of the connections listed, which are
	// armed, one after the other. It takes a list because each contender is
	// to be called as a server calls it, and not through an interface.
	Touch(list []uint32)

	// Close ends all goroutines.
	Close()
}

// Tick is the grain of all contenders that have one to choose.
const Tick = 10 * time.Millisecond

// A Kind is a contender to be had.
type Kind struct {
	Name   string `json:"name"`
	What   string `json:"what"`             // in a few words
	Module string `json:"module,omitempty"` // whose version matters; "" for the standard library and what is written here
	Note   string `json:"note,omitempty"`   // what a reader of its figures has to know

	// Most is how many connections it can have, 0 for any number; Limited
	// tells why.
	Most    int    `json:"-"`
	Limited string `json:"-"`

	// Unweighed tells why its memory, and what collecting its garbage takes,
	// cannot be measured, "" if they can be.
	Unweighed string `json:"-"`

	// New makes one with room for n connections, which are stale after timeout. It
	// calls expired, on whatever goroutine, with the number of each that is.
	New func(n int, timeout time.Duration, expired func(i int)) (Contender, error) `json:"-"`
}

// About tells what the contender is, and what a reader has to know.
func (k Kind) About() string {
	if k.Note == "" {
		return k.What
	}
	return k.What + "; " + k.Note
}

// All returns the kinds in the order of presentation.
func All() []Kind {
	most := mostSockets()
	return []Kind{
		{Name: "idlewheel", What: "idle.Conn.Touch, a Tracker with an IdleTimeout", New: newIdlewheel},
		{Name: "wheel", What: "idlewheel's bare wheel, a timer moved at every activity, under a mutex", New: newMovedWheel},
		{
			Name:      "SetReadDeadline",
			What:      "net.Conn.SetReadDeadline before each read",
			Note:      "on UDP sockets, of which each takes one descriptor; the deadline goes the way that TCP's goes",
			Most:      most,
			Limited:   fmt.Sprintf("a process may have no more than about %d sockets here", most),
			Unweighed: "its two timers lie in the poll descriptor of every socket, used or not, and not on the heap, where its sockets and readers would be what is found",
			New:       newDeadlines,
		},
		{Name: "AfterFunc", What: "time.AfterFunc, Reset at every activity", New: newAfterFunc},
		{Name: "AfterFunc-lazy", What: "time.Now noted at every activity, and a time.AfterFunc that goes on if it fires too soon", New: newLazy},
		{
			Name:   "timingwheel",
			What:   "RussellLuo/timingwheel, Stop and AfterFunc at every activity",
			Module: "github.com/RussellLuo/timingwheel",
			Note:   "has no Reset",
			New:    newTimingWheel,
		},
		{
			Name: "hashed-wheel",
			What: "a hashed wheel with rounds in Netty's style, written for the comparison; cancel and arm at every activity",
			Note: "512 slots, as Netty's by default",
			New:  newHashed,
		},
		{Name: "heap", What: "container/heap under a mutex, heap.Fix at every activity", New: newHeap},
	}
}

// Find returns the kind with the given name.
func Find(name string) (k Kind, ok bool) {
	for _, k := range All() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
