//go:build proof && linux

package faults

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long is waited for what has to happen. Nothing depends on how
// long it takes.
const patience = 30 * time.Second

// limit is what servers here allow: long against the moments for which a busy
// machine lets nobody run, short against a person's patience.
const limit = time.Second

// childEnv, in the environment, makes the test binary one of children instead.
const childEnv = "IDLEWHEEL_FAULTS_CHILD"

// children are what the test binary can be besides. They end when their stdin does.
var children = map[string]func() error{"servers": serveAll, "scarce": serveScarce, "bounded": serveBounded}

// TestMain runs the tests, or a child. It has more tests run in parallel than there are
// cores, as they mostly wait.
func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		flag.Parse()
		flag.Set("test.parallel", "8")
		os.Exit(m.Run())
	}
	if err := children[name](); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// untilDismissed waits until the parent has no more use for its child.
func untilDismissed() { io.Copy(io.Discard, os.Stdin) }

// A child is this binary once more.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

// spawn starts a child, which is stopped at the end of the test.
func spawn(t *testing.T, name string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &child{cmd, bufio.NewScanner(stdout)}
}

// line returns what the child says after the prefix, on its next line.
func (c *child) line(t *testing.T, prefix string) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the child ended, and did not say %q", prefix)
	}
	rest, ok := strings.CutPrefix(c.out.Text(), prefix)
	if !ok {
		t.Fatalf("the child said %q, not %q", c.out.Text(), prefix)
	}
	return rest
}

func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
