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
				s.Site = httpsuite.Start(b, secure, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
					c := httpsuite.Config{Listener: httpsuite.Listen(b), Log: log, Idle: idle}
					prepare := func(server *http.Server) { speak2(server, secure) }
					if ours {
						return setup(s.server, c, secure, prepare)
					}
					return bareSetup(s.server, c.Listener, c, secure, prepare), nil
				})
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
