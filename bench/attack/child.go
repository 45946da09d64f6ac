package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// A child is the server process.
type child struct {
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	news      *json.Decoder
	address   string
	port      int
	snapshots chan *snapshot // closed when the process has ended
}

// startServer starts the server process, which is this program again, and waits
// until it listens. If clients is not 0, it has descriptors for so many only.
func startServer(cfg config, variant string, clients int, stderr io.Writer) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to start it as the server: %w", err)
	}
	args := append([]string{serverCommand, variant, strconv.Itoa(clients)}, cfg.args()...)
	cmd := exec.Command(self, args...)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the server process: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, news: json.NewDecoder(stdout), snapshots: make(chan *snapshot, 1)}
	var first news
	err = c.news.Decode(&first)
	to, parsed := netip.ParseAddrPort(first.Address)
	if err != nil || parsed != nil {
		c.kill()
		return nil, fmt.Errorf("the server process did not say where it listens (%v)", errors.Join(err, parsed))
	}
	c.address, c.port = first.Address, int(to.Port())
	return c, nil
}

// hear takes the server's news until there are no more.
func (c *child) hear(closed func(closure)) {
	defer close(c.snapshots)
	for {
		var n news
		if c.news.Decode(&n) != nil {
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
func (c *child) look() (state, error) {
	var s state
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
	var err error
	if s.RSS, err = residentBytes(c.cmd.Process.Pid); err != nil {
		return s, err
	}
	s.unsent, err = findUnsent(c.port)
	return s, err
}

// kill ends the process if it still runs.
func (c *child) kill() {
	c.stdin.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
