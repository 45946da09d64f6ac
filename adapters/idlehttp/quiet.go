package idlehttp

import (
	"bytes"
	"log"
)

// quiet returns a logger that hands on to to, or to the standard one, all but
// what net/http says of handshakes, and prefaces of HTTP/2, that timed out: that
// is what a handshake timeout is for, and it is counted.
func quiet(to *log.Logger) *log.Logger {
	if to == nil {
		to = log.Default()
	}
	return log.New(filter{to}, "", 0)
}

type filter struct{ to *log.Logger }

func (f filter) Write(line []byte) (int, error) {
	about := bytes.Contains(line, []byte("TLS handshake error")) || bytes.Contains(line, []byte("error reading preface"))
	if !about || !bytes.Contains(line, []byte("i/o timeout: handshake: ")) {
		f.to.Print(string(line))
	}
	return len(line), nil
}
