// Package contender has the ways in which a Go server can notice that a connection has
// gone stale, all behind one interface.
//
// None is tuned to a workload. Each is used as its own documentation says.
package contender

import (
	"fmt"
	"time"
)

// A Contender times connections, numbered from 0, and says which of them were not active
// for its timeout.
//
// Touch may be called by several goroutines at once for different connections. Nothing
// else may be.
type Contender interface {
	// Arm begins to time a connection, as active just now.
	Arm(i int)

	// Cancel ends the timing of a connection, which is armed. It may be armed again.
	Cancel(i int)

	// Touch notes an activity of each of the connections listed, which are armed. It takes
	// a list because each contender is to be called as a server calls it, and not through
	// an interface.
	Touch(list []uint32)

	// Close ends all goroutines.
	Close()
}

// Tick is the grain of all contenders that have one to choose.
const Tick = 10 * time.Millisecond

// A Kind is a contender to be had.
type Kind struct {
	Name string
	What string // in a sentence

	// Most is how many connections it can have, 0 for any number. Such a contender has its
	// timers outside of the heap, so its memory isn't measured.
	Most int

	// New makes one with room for n connections, which are stale after timeout. It calls
	// expired, on whatever goroutine, with the number of each that is.
	New func(n int, timeout time.Duration, expired func(i int)) (Contender, error)
}

// All returns the kinds in the order of presentation.
func All() []Kind {
	most := mostSockets()
	return []Kind{
		{Name: "idlewheel", What: "idle.Conn.Touch, a Tracker with an IdleTimeout", New: newIdlewheel},
		{Name: "SetReadDeadline", Most: most, New: newDeadlines,
			What: fmt.Sprintf("net.Conn.SetReadDeadline before each read; at most %d UDP sockets, whose deadlines go the way that TCP's go", most)},
		{Name: "AfterFunc", What: "time.AfterFunc, Reset at every activity", New: newAfterFunc},
		{Name: "AfterFunc-lazy", What: "time.Now noted at every activity, and a time.AfterFunc that goes on if it fires too soon", New: newLazy},
		{Name: "timingwheel", What: "RussellLuo/timingwheel, which has no Reset: Stop and AfterFunc at every activity", New: newTimingWheel},
	}
}
