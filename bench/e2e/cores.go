//go:build linux

package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// twoCores returns a core for servers and one for the load, or one for both if this process may
// use only one.
func twoCores() (servers, load int, err error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return 0, 0, err
	}
	var cores []int
	for core := 0; len(cores) < min(may.Count(), 2); core++ {
		if may.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores[0], cores[len(cores)-1], nil
}

// pin keeps this process on a core.
func pin(core int) error {
	runtime.GOMAXPROCS(1)
	var set unix.CPUSet
	set.Set(core)
	threads, err := os.ReadDir("/proc/self/task") // later ones inherit
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return err
}
