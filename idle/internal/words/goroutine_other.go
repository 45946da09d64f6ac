//go:build idletrace && !amd64

package words

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutine returns the number of the current goroutine.
func goroutine() (n uint64) {
	var buf [32]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	n, _ = strconv.ParseUint(string(text[:bytes.IndexByte(text, ' ')]), 10, 64)
	return n
}
