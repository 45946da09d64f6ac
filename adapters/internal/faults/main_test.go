package faults

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
)

// childEnv, in the environment, makes the test binary one of children instead.
const childEnv = "IDLEWHEEL_FAULTS_CHILD"

// children are what the test binary can be besides. They end when their stdin
// does.
var children = map[string]func() error{}

// TestMain runs the tests, or a child. It has more tests run in parallel than there are
// cores, as they mostly wait.
func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		flag.Parse()
		chosen := false
		flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
		if !chosen {
			flag.Set("test.parallel", "8")
		}
		os.Exit(m.Run())
	}
	if err := children[name](); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// untilDismissed waits until the parent has no more use for its child.
func untilDismissed() { io.Copy(io.Discard, os.Stdin) }
