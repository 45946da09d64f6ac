//go:build proof

package faults

import (
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The wall clock may be set back and forth by a day, while everything goes on:
// live connections are not closed, and silent ones are.
//
// The clock of the machine is none of a test's business, and there is no time
// namespace for it, so a child gets a wall clock of its own. Go reads the clocks
// by clock_gettime in the kernel's vDSO; before the child runs its first
// instruction that function is overwritten by one that adds an offset to
// CLOCK_REALTIME, which the child then changes.
func TestWallClockSteps(t *testing.T) {
	long(t)
	t.Parallel()
	c := spawnWithClock(t, "clocks")
	addresses := strings.Fields(c.line(t, "listening "))
	var talkers []*talker
	for range 5 {
		talkers = append(talkers, talk(t, addresses[0], "hello"), talk(t, addresses[1], "hello"), talk(t, addresses[2], request))
	}
	for range 8 {
		time.Sleep(limit / 2)
		for _, k := range talkers {
			k.answered(t)
		}
	}
	for _, address := range addresses {
		awaitEnd(t, dial(t, address))
	}
	for _, k := range talkers {
		k.mustLive(t)
	}
	c.line(t, "stepped")
}

// spawnWithClock starts a child that has a wall clock of its own.
func spawnWithClock(t *testing.T, name string) *child {
	t.Helper()
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	c, err := spawn(t, name, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} })
	if err != nil {
		t.Skipf("cannot trace a process: %v", err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Skipf("cannot trace a process: %v, status %x", err, status)
	}
	patched := patchClock(c.Process.Pid)
	if err := syscall.PtraceDetach(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if patched != nil {
		t.Skipf("cannot give a process a clock of its own: %v", patched)
	}
	return c
}

// patchClock overwrites the function in a process that is stopped.
func patchClock(pid int) error {
	at, err := findClock(pid)
	if err != nil {
		return err
	}
	return poke(pid, at, ownClock)
}
