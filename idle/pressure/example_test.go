package pressure_test

import (
	"fmt"
	"log"
	"runtime/debug"

	"github.com/idlewheel/idlewheel/idle/pressure"
)

func ExampleHeap() {
	debug.SetMemoryLimit(4 << 30) // or GOMEMLIMIT=4GiB
	share, err := pressure.Heap()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(share < 0.5)
	// Output: true
}

// Two readings, each with a range of its own: the higher one counts.
func ExampleCPU() {
	debug.SetMemoryLimit(4 << 30)
	read := pressure.Highest(
		pressure.Between(0.85, 0.95, pressure.Heap),
		pressure.Between(0.8, 1, pressure.CPU()))
	n, err := read() // pressure.Config.Read
	fmt.Println(n >= 0 && n <= 1, err)
	// Output: true <nil>
}
