// Package child starts this program again as other processes, which play roles: a server under
// test, for one. Parent and child send each other JSON values.
//
//	func main() {
//		child.Main(map[string]child.Role{"server": serve})
//		... // the program proper, which calls child.Start("server", order, os.Stderr)
//	}
//
// A test that starts children does the same in TestMain.
package child

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

const (
	roleEnv  = "IDLEWHEEL_BENCH_ROLE" // tells a child its role
	stopTime = 10 * time.Second       // how long a child may take to end
)

// A Role is what a child does. The child ends when it returns.
type Role func(p *Parent) error

// Main plays the role of this process and ends it, if it is a child. Otherwise it returns at once.
func Main(roles map[string]Role) {
	name := os.Getenv(roleEnv)
	if name == "" {
		return
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches parent and children alike, and the parent still needs them
	err := fmt.Errorf("there is no role %q", name)
	if role := roles[name]; role != nil {
		out := os.Stdout
		os.Stdout = os.Stderr // for libraries that log there
		err = role(&Parent{json.NewDecoder(os.Stdin), json.NewEncoder(out)})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Parent is the process that has started this one.
type Parent struct {
	in  *json.Decoder
	out *json.Encoder
}

// Hear takes the next value from the parent. The first is the order that Start was given. It
// fails when the parent has stopped the child, or is gone.
func (p *Parent) Hear(v any) error { return p.in.Decode(v) }

// Tell sends a value to the parent. Only one goroutine may call it.
func (p *Parent) Tell(v any) error { return p.out.Encode(v) }

// A Child is a process that plays a role. It must be stopped.
type Child struct {
	cmd *exec.Cmd
	end io.Closer // of its stdin
	in  *json.Encoder
	out *json.Decoder
}

// Start starts a child and gives it an order.
func Start(role string, order any, stderr io.Writer) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to start it again: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"="+role), stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := cmp.Or(inErr, outErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s process: %w", role, err)
	}
	c := &Child{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}
	if err := c.Tell(order); err != nil {
		return nil, fmt.Errorf("giving the %s process its order: %w", role, errors.Join(err, c.Stop()))
	}
	return c, nil
}

// Pid returns the process's id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Tell sends a value to the child.
func (c *Child) Tell(v any) error { return c.in.Encode(v) }

// Hear takes the next value from the child. It fails when the child has ended.
func (c *Child) Hear(v any) error { return c.out.Decode(v) }

// Stop ends the process, and returns an error if it did not end well. What it has told and nobody
// has heard is lost.
func (c *Child) Stop() error {
	c.end.Close()
	defer time.AfterFunc(stopTime, c.Kill).Stop()
	return c.cmd.Wait()
}

// Kill ends the process at once. It must be stopped all the same.
func (c *Child) Kill() { _ = c.cmd.Process.Kill() } // fails only if it has ended
