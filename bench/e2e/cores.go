//go:build linux

package main

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// allotCores keeps this process on one core, and returns another one for children, or
// the same if this process may use only one.
func allotCores() (core int, err error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return 0, err
	}
	var cores []int
	for core := 0; len(cores) < min(may.Count(), 2); core++ {
		if may.IsSet(core) {
			cores = append(cores, core)
		}
	}
	runtime.GOMAXPROCS(1)
	threads, err := os.ReadDir("/proc/self/task") // later ones inherit
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return 0, err
		}
		if err := keep(id, cores[len(cores)-1]); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, err
		}
	}
	return cores[0], nil
}

// keep keeps a thread on a core. Thread 0 is the one that calls.
func keep(thread, core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(thread, &set)
}

// startOn starts cmd on a core, where it stays: it inherits that from the thread that starts it.
func startOn(core int, cmd *exec.Cmd) (err error) {
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var home unix.CPUSet
	if err := unix.SchedGetaffinity(0, &home); err != nil {
		return err
	}
	if err := keep(0, core); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, unix.SchedSetaffinity(0, &home)) }()
	return cmd.Start()
}
