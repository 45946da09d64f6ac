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
