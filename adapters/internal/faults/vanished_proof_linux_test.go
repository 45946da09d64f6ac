//go:build proof

package faults

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// As TestVanishedBehindProxy, but the peer's packets are dropped: a process in a
// network namespace of its own takes its loopback interface down, with a server
// and its clients on it.
func TestVanishedFromNetwork(t *testing.T) {
	long(t)
	t.Parallel()
	c, err := spawn(t, "vanishing", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
	})
	if err != nil {
		t.Skipf("cannot make a network namespace: %v", err)
	}
	for {
		switch line := c.line(t, ""); line {
		case "done":
			return
		case "down":
			t.Log("the peers' packets are dropped from now on")
		default:
			t.Error(line)
			if line[0] == 'e' { // error: the child has ended
				return
			}
		}
	}
}
