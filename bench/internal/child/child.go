// Package child starts this program again as other processes, which play roles: a server under
// test, for one. Parent and child send each other JSON values.
//
//	func main() {
//		child.Main(map[string]child.Role{"server": serve})
//		... // the program proper, which calls child.Start("server", order, options)
//	}
//
// A test that starts children does the same in TestMain.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

const (
	roleEnv = "IDLEWHEEL_BENCH_ROLE" // tells a child its role

	// mark begins each value that a child sends, as in RFC 7464. The parent ignores lines without
	// it, because some libraries log to stdout.
	mark = "\x1e"

	stopTime = 10 * time.Second // how long a child may take to end
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
		err = role(&Parent{json.NewDecoder(os.Stdin)})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Parent is the process that has started this one.
type Parent struct{ in *json.Decoder }

// Hear takes the next value from the parent. The first is the order that Start was given. It
// fails when the parent has stopped the child, or is gone.
func (p *Parent) Hear(v any) error { return p.in.Decode(v) }

// Tell sends a value to the parent. Only one goroutine may call it.
func (p *Parent) Tell(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(os.Stdout, "%s%s\n", mark, text)
	}
	return err
}

// Options say how a child is started.
type Options struct {
	Stderr io.Writer             // nil for that of this process
	Start  func(*exec.Cmd) error // nil for its own Start
}

// A Child is a process that plays a role. It must be stopped.
type Child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	ended chan struct{} // closed when err is set
	err   error
}

// Start starts a child and gives it an order.
func Start(role string, order any, o Options) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to start it again: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	if cmd.Stderr = o.Stderr; o.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, in, err := os.Pipe() // not StdoutPipe, which Wait closes though there may be more to read
	if err != nil {
		return nil, err
	}
	cmd.Stdout = in
	if o.Start != nil {
		err = o.Start(cmd)
	} else {
		err = cmd.Start()
	}
	in.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("starting the %s process: %w", role, err)
	}
	c := &Child{cmd: cmd, stdin: stdin, out: bufio.NewReader(out), ended: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	if err := c.Tell(order); err != nil {
		return nil, fmt.Errorf("giving the %s process its order: %w", role, errors.Join(err, c.Stop()))
	}
	return c, nil
}

// Pid returns the process's id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Tell sends a value to the child.
func (c *Child) Tell(v any) error { return json.NewEncoder(c.stdin).Encode(v) }

// ErrEnded is that there is no value because the child has ended.
var ErrEnded = errors.New("the process has ended")

// Hear takes the next value from the child.
func (c *Child) Hear(v any) error {
	for {
		line, err := c.out.ReadString('\n')
		if _, text, ok := strings.Cut(line, mark); ok {
			return json.Unmarshal([]byte(text), v)
		}
		if err != nil {
			return ErrEnded
		}
	}
}

// Stop ends the process, and returns an error if it did not end well.
func (c *Child) Stop() error {
	c.stdin.Close()
	select {
	case <-c.ended:
		return c.err
	case <-time.After(stopTime):
		c.Kill()
		return fmt.Errorf("the process had not ended %v after it was told to", stopTime)
	}
}

// Kill ends the process at once.
func (c *Child) Kill() {
	c.stdin.Close()
	_ = c.cmd.Process.Kill() // fails only if it has ended
	<-c.ended
}
