package idlehttp

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// BenchmarkHTTP2 makes small requests over one connection, many at a time, by net/http
// with and without the timeouts of this package.
func BenchmarkHTTP2(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, ours := range []bool{false, true} {
			b.Run(fmt.Sprintf("tls=%v/ours=%v", secure, ours), func(b *testing.B) {
				s := &site{server: &http.Server{Handler: http.HandlerFunc(echo)}}
				ln, speak := httpsuite.Listen(b), func(server *http.Server) { speak2(server, secure) }
				start := limited(s.server, ln, secure, Timeouts{}, speak)
				if !ours {
					start = func(log io.Writer, idle func()) (httpsuite.Setup, error) {
						return httpsuite.NetHTTP(s.server, ln, secure, log, idle, speak), nil
					}
				}
				s.Site = httpsuite.Start(b, secure, start)
				tr := s.transport(true)
				s.do(tr, nil) // or each of them would dial, and the server log those that are not needed
				b.ResetTimer()
				b.SetParallelism(50)
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						s.do(tr, nil)
					}
				})
			})
		}
	}
}
