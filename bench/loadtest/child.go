package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
)

// A child is the server process.
type child struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	news    *json.Decoder
	address string
}

// startServer starts the server process, which is this program again, and
// waits until it listens.
func startServer(cfg config, stderr io.Writer) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to start it as the server: %w", err)
	}
	cmd := exec.Command(self, append([]string{serverCommand}, cfg.serverArgs()...)...)
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
	c := &child{cmd: cmd, stdin: stdin, news: json.NewDecoder(stdout)}
	var first news
	if err := c.news.Decode(&first); err != nil || first.Address == "" {
		c.kill()
		return nil, fmt.Errorf("the server process did not say where it listens (%v)", err)
	}
	c.address = first.Address
	return c, nil
}

// serverArgs are the flags for the server process.
func (c *config) serverArgs() []string {
	return []string{
		"-sockets", strconv.Itoa(c.sockets),
		"-duration", c.duration.String(),
		"-idle", c.idle.String(),
		"-heartbeat", c.heartbeat.String(),
		"-shards", strconv.Itoa(c.shards),
		"-tick", c.tick.String(),
	}
}

// stop tells the process to end in good order.
func (c *child) stop() { c.stdin.Close() }

// kill ends the process if it still runs.
func (c *child) kill() {
	c.stop()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
