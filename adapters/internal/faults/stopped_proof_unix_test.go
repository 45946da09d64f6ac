//go:build proof && unix

package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server process that is stopped (SIGSTOP) for longer than all its limits, and
// continued, closes nobody who has sent all along: their bytes wait in the
// kernel, and the silence was its own. It does go on to close who is silent.
func TestStoppedProcess(t *testing.T) {
	long(t)
	t.Parallel()
	c, err := spawn(t, "servers", nil)
	if err != nil {
		t.Fatal(err)
	}
	addresses := strings.Fields(c.line(t, "listening "))
	names := []string{"idlenet idle", "idlenet passive heartbeat", "idlenet read", "idlegnet", "idlehttp"}
	talkers := make([][]*talker, len(names))
	for i := range names {
		message := "hello"
		if names[i] == "idlehttp" {
			message = request
		}
		for range 10 {
			talkers[i] = append(talkers[i], talk(t, addresses[i], message))
		}
	}
	for range 2 {
		for _, all := range talkers {
			for _, k := range all {
				k.answered(t)
			}
		}
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Skipf("cannot stop a process: %v", err)
		}
		time.Sleep(3 * limit)
		c.Process.Signal(syscall.SIGCONT)
		time.Sleep(2 * limit) // who is closed in error is by now
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			silent := dial(t, addresses[i])
			for _, k := range talkers[i] {
				k.mustLive(t)
			}
			awaitEnd(t, silent)
		})
	}
}
