//go:build proof

package faults

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A process that allocates hard, and is collected all the time, closes no
// connection that is alive. It may be late with those that are not.
func TestGarbage(t *testing.T) {
	long(t)
	s := startNet(t, idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, nil, echo)
	g := startGnet(t, idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, gnetEcho)
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	var talkers []*talker
	for range 10 {
		talkers = append(talkers, talk(t, s.address, "hello"), talk(t, g.address, "hello"))
	}
	litter(5 * limit)
	silent := dial(t, s.address)
	for _, k := range talkers {
		k.mustLive(t)
	}
	awaitEnd(t, silent)
}

// litter allocates on all cores, and keeps much of it for a while, in many small
// pieces with pointers.
func litter(d time.Duration) {
	type piece struct {
		next *piece
		_    [48]byte
	}
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var heaps [8]*piece
			for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
				heaps[i%len(heaps)] = nil
				for range 20_000 {
					heaps[i%len(heaps)] = &piece{next: heaps[i%len(heaps)]}
				}
			}
		})
	}
	all.Wait()
}
