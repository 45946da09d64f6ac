package httpsuite

import (
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Main is a TestMain. It runs more tests at once than there are processors, because most of
// them wait most of the time. It fails if a descriptor is left over, or a goroutine of the
// library or with one of the given words in its stack.
func Main(m *testing.M, words ...string) {
	flag.Set("test.parallel", "32") // -parallel still overrides it, because Run parses the flags
	Identity()                      // made here because it can't be made in virtual time
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close() // package net has opened the descriptors that it keeps
	}
	files := openFiles()
	code := m.Run()
	if code == 0 && !tidy(files, append(words, "idle.(*Tracker)", "httpconn.", "netconn.")) {
		code = 1
	}
	os.Exit(code)
}

// tidy waits until no goroutine and no descriptor is left over. It returns false if some remain.
func tidy(files int, words []string) bool {
	var stack string
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(10 * ms) {
		stack = stacks()
		left := slices.ContainsFunc(words, func(w string) bool { return strings.Contains(stack, w) })
		if !left && openFiles() <= files {
			return true
		}
	}
	fmt.Printf("FAIL: left over: %d descriptors more than there were, and of these goroutines some:\n%s\n", openFiles()-files, stack)
	return false
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// openFiles returns the number of the process's descriptors, or 0 without /proc.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
