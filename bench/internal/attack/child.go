package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"
)

// A child is the server process.
type child struct {
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	address   string
	port      int
	snapshots chan *snapshot // closed when the process has ended
}

// start starts the server process, which is this program again, and waits until
// it listens. closed is told of the connections that it closes.
func start(s spec, stderr io.Writer, env []string, closed func(closure)) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to start it as the server: %w", err)
	}
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, Command, string(arg)), snapshots: make(chan *snapshot, 1)}
	c.cmd.Stderr, c.cmd.Env = stderr, append(os.Environ(), env...)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the server process: %w", err)
	}
	var first news
	d := json.NewDecoder(stdout)
	err = d.Decode(&first)
	to, parsed := netip.ParseAddrPort(first.Address)
	if err != nil || parsed != nil {
		c.stop()
		return nil, fmt.Errorf("the server process did not say where it listens (%v)", errors.Join(err, parsed))
	}
	c.address, c.port = first.Address, int(to.Port())
	go c.hear(d, closed)
	return c, nil
}

// hear takes the server's news until there are no more.
func (c *child) hear(d *json.Decoder, closed func(closure)) {
	defer close(c.snapshots)
	for {
		var n news
		if d.Decode(&n) != nil {
			return
		}
		if n.Closed != nil {
			closed(*n.Closed)
		}
		if n.Snapshot != nil {
			c.snapshots <- n.Snapshot
		}
	}
}

const snapshotTimeout = 10 * time.Second

// look returns how the server is.
func (c *child) look() (s state, err error) {
	if _, err := c.stdin.Write([]byte{'?'}); err != nil {
		return s, fmt.Errorf("the server process has ended: %w", err)
	}
	select {
	case got := <-c.snapshots:
		if got == nil {
			return s, errors.New("the server process has ended")
		}
		s.snapshot = *got
	case <-time.After(snapshotTimeout):
		return s, fmt.Errorf("the server process has not answered for %v", snapshotTimeout)
	}
	if s.RSS, err = residentBytes(c.cmd.Process.Pid); err != nil {
		return s, err
	}
	s.unsent, err = findUnsent(c.port)
	return s, err
}

// stop ends the process.
func (c *child) stop() {
	c.stdin.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
