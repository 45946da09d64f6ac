//go:build proof

package faults

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A child is this binary once more.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

// spawn starts a child, which is stopped at the end of the test. prepare may
// change how.
func spawn(t *testing.T, name string, prepare func(*exec.Cmd)) (*child, error) {
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
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &child{cmd, bufio.NewScanner(stdout)}, nil
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
