package pressure_test

import (
	"fmt"
	"log"
	"runtime/debug"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// Three readings, each with a range of its own: the limits follow the highest.
func ExampleHighest() {
	debug.SetMemoryLimit(4 << 30) // or GOMEMLIMIT=4GiB
	tracker, err := idle.New(idle.Policy{IdleTimeout: 10 * time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	follower, err := pressure.Follow(tracker, pressure.Config{
		Read: pressure.Highest(
			pressure.Between(0.85, 0.95, pressure.Heap),
			pressure.Between(0.7, 0.9, pressure.Descriptors),
			pressure.Between(0.8, 1, pressure.CPU())),
		Policy: idle.Policy{IdleTimeout: 2 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	now := tracker.Policy().IdleTimeout
	fmt.Println(2*time.Second <= now && now <= 10*time.Minute)
	follower.Stop()
	fmt.Println(tracker.Policy().IdleTimeout)
	// Output:
	// true
	// 10m0s
}
