package idlehttp

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
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
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "done") })}
	s := &site{server: server}
	s.Site = httpsuite.Start(b, secure, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
		c := httpsuite.Config{Listener: httpsuite.Listen(b), Log: log, Idle: idle}
		prepare := func(server *http.Server) {
			speak2(server, secure)
			server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 250}
		}
		if ours {
			return setup(server, c, secure, prepare)
		}
		return bareSetup(server, c.Listener, c, secure, prepare), nil
	})

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
		for f.In.Buffered() >= 9 && ended < at { // what is there already
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
	head, err := f.In.Peek(9)
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
	f.In.Discard(9 + int(binary.BigEndian.Uint32(head)>>8))
	return ends
}
