package idlegnet

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain has more tests run in parallel than there are cores, as those that do mostly
// wait, and sees to it that no goroutine outlives them all.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		flag.Set("test.parallel", "8")
	}
	code := m.Run()
	if stack := left(); code == 0 && stack != "" {
		fmt.Printf("goroutines are left:\n%s", stack)
		code = 1
	}
	os.Exit(code)
}

// left returns the stacks of all goroutines if those of trackers or loops are left over
// for long, else nothing.
func left() string {
	stack := make([]byte, 1<<20)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stack = stack[:cap(stack)]
		stack = stack[:runtime.Stack(stack, true)]
		all := string(stack)
		if !strings.Contains(all, "idle.(*Tracker)") && !strings.Contains(all, "gnet/v2.(*eventloop)") {
			return ""
		}
	}
	return string(stack)
}

// noneLeft fails the test if goroutines of trackers or loops are left over. Tests that
// run in parallel leave that to [TestMain].
func noneLeft(t *testing.T) {
	t.Helper()
	if stack := left(); stack != "" {
		t.Errorf("goroutines are left:\n%s", stack)
	}
}
