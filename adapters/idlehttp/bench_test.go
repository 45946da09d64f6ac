package idlehttp

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// BenchmarkRequest is a small request over HTTP/1, by net/http with and without the timeouts
// of this package. The connection is a pipe, so most of the time is net/http's.
func BenchmarkRequest(b *testing.B) {
	for _, ours := range []bool{false, true} {
		b.Run(fmt.Sprintf("ours=%v", ours), func(b *testing.B) {
			answer := []byte("hello")
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) })}
			pipes := idletest.NewListener()
			var ln net.Listener = pipes
			if ours {
				l, err := Wrap(s, ln, Timeouts{})
				if err != nil {
					b.Fatal(err)
				}
				ln = l
			}
			go s.Serve(ln)
			defer s.Close()
			client, err := pipes.Dial()
			if err != nil {
				b.Fatal(err)
			}
			request, response := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := client.Read(response); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
