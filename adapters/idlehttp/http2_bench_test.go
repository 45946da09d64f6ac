package idlehttp

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net/http"
	"testing"
	"time"
)

// BenchmarkHTTP2 makes small GETs over one connection, some at a time, by net/http
// with and without the timeouts of this package.
func BenchmarkHTTP2(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, at := range []int{1, 100} {
			for _, ours := range []bool{false, true} {
				name := fmt.Sprintf("tls=%v/at=%d/ours=%v", secure, at, ours)
				b.Run(name, func(b *testing.B) { benchmarkHTTP2(b, secure, ours, at) })
			}
		}
	}
}

func benchmarkHTTP2(b *testing.B, secure, ours bool, at int) {
	s := &site{t: b, secure: secure, served: make(chan error, 1)}
	s.server = &http.Server{ErrorLog: log.New(failWriter{b}, "", 0), Protocols: new(http.Protocols)}
	s.server.Protocols.SetHTTP2(secure)
	s.server.Protocols.SetUnencryptedHTTP2(!secure)
	s.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "done") })
	s.server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 250}
	if secure {
		s.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{identity().certificate}}
	}
	inner := listen(b)
	s.Listener = unlimited(b, inner)
	serve := func() error { return s.server.Serve(inner) }
	if secure {
		serve = func() error { return s.server.ServeTLS(inner, "", "") }
	}
	if ours {
		l, err := NewListener(s.server, inner, Timeouts{})
		if err != nil {
			b.Fatal(err)
		}
		serve = func() error { return s.server.Serve(l) }
		if secure {
			serve = func() error { return s.server.ServeTLS(l, "", "") }
		}
	}
	go func() { s.served <- serve() }()
	defer func() { s.server.Close(); <-s.served; s.Listener.Close() }() // the last one only ends the tracker of s

	f := s.dialFramed(1 << 30)
	f.update(0, 1<<30)
	f.SetDeadline(time.Time{})
	b.ResetTimer()
	id := uint32(1)
	get := []byte(frame(1, 5, 0, "\x82\x87\x84\x41\x04test"))
	var out []byte
	more := func(n int) {
		out = out[:0]
		for range n {
			binary.BigEndian.PutUint32(get[5:], id)
			out = append(out, get...)
			id += 2
		}
		f.Write(out)
	}
	asked, done := min(at, b.N), 0
	more(asked)
	for done < b.N {
		ended := f.frames(b)
		for f.in.Buffered() >= 9 && ended < at { // what is there already
			ended += f.frames(b)
		}
		done += ended
		n := min(ended, b.N-asked)
		asked += n
		if n > 0 {
			more(n)
		}
	}
}

// frames reads a frame, and returns 1 if it ends a stream.
func (f framed) frames(b *testing.B) int {
	head, err := f.in.Peek(9)
	if err != nil {
		b.Fatal(err)
	}
	ends := 0
	if head[3] <= 1 && head[4]&1 != 0 {
		ends = 1
	}
	if head[3] == 3 || head[3] == 7 {
		b.Fatalf("a frame of type %d", head[3])
	}
	f.in.Discard(9 + int(binary.BigEndian.Uint32(head)>>8))
	return ends
}
