package pressure_test

import (
	"fmt"
	"log"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// Idle connections have ten minutes, and less when descriptors run out.
func ExampleFollow() {
	tracker, err := idle.New(idle.Policy{IdleTimeout: 10 * time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	descriptors := func() (float64, error) { return 0.92, nil } // pressure.Descriptors, in a server
	follower, err := pressure.Follow(tracker, pressure.Config{
		Read: descriptors, From: 0.85, Full: 0.95,
		Policy: idle.Policy{IdleTimeout: 2 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f %v\n", follower.Pressure(), tracker.Policy().IdleTimeout)
	follower.Stop()
	fmt.Println(tracker.Policy().IdleTimeout)
	// Output:
	// 0.70 3m1.4s
	// 10m0s
}

// The limits at three pressures. WriteTimeout stays as it is at rest.
func ExampleScale() {
	rest := idle.Policy{IdleTimeout: 600 * time.Second, WriteTimeout: 10 * time.Second}
	full := idle.Policy{IdleTimeout: 2 * time.Second}
	for _, p := range []float64{0, 0.7, 1} {
		now := pressure.Scale(rest, full, p)
		fmt.Println(now.IdleTimeout, now.WriteTimeout)
	}
	// Output:
	// 10m0s 10s
	// 3m1.4s 10s
	// 2s 10s
}
