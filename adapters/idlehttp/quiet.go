package idlehttp

import (
	"bytes"
	"log"
)

// quiet returns a logger that forwards to the given one, or to the standard
// logger if that is nil. It drops net/http's lines about TLS handshakes and
// HTTP/2 prefaces that timed out. Those are expected, and are counted.
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
