package idlehttp

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain lets more tests run at a time than there are processors, as most of
// them wait most of the time, and fails if they leave something behind.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "24")
	identity() // its certificate is made once
	files := openFiles()
	code := m.Run()
	if code == 0 && !tidy(files) {
		code = 1
	}
	os.Exit(code)
}

// tidy waits until no goroutine and no descriptor is left over.
func tidy(files int) bool {
	stack := make([]byte, 1<<20)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * ms) {
		stack = stack[:cap(stack)]
		stack = stack[:runtime.Stack(stack, true)]
		left := bytes.Contains(stack, []byte("idlewheel/idle.")) || bytes.Contains(stack, []byte("net/http.(*conn)")) || bytes.Contains(stack, []byte("httpconn."))
		if !left && openFiles() <= files {
			return true
		}
	}
	fmt.Printf("FAIL: left over: %d descriptors more than there were, and of these goroutines some:\n%s\n", openFiles()-files, stack)
	return false
}

// openFiles counts the process's descriptors, if that is easy.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
