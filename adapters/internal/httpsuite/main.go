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

// Main is a TestMain. It lets more tests run at a time than there are processors, as
// most of them wait most of the time, and fails if they leave something behind: a
// descriptor, or a goroutine of the library or with one of the given words in its stack.
func Main(m *testing.M, words ...string) {
	flag.Set("test.parallel", "32") // unless -parallel is given: Run parses the flags
	Identity()                      // made once, and not in virtual time
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close() // now package net has the descriptors that it keeps
	}
	files := openFiles()
	code := m.Run()
	if code == 0 && !tidy(files, append(words, "idle.(*Tracker)", "httpconn.", "netconn.")) {
		code = 1
	}
	os.Exit(code)
}

// tidy waits until no goroutine and no descriptor is left over.
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

// openFiles counts the process's descriptors, if that is easy.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
