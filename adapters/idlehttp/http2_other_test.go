package idlehttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// handOvers are functions by which a server hands over connections.
type handOvers = map[string]func(*http.Server, *tls.Conn, http.Handler)

// What the log says if frames are not read.
const withoutStreams = "the limits of single streams do not apply"

// Where there is no function that takes any connection, frames are not read, and the
// log says so, once. The limits of connections count as far as the server tells.
func TestHTTP2WithoutFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := httpsuite.Off()
		limits.HandshakeTimeout, limits.KeepAliveTimeout, limits.StreamTimeout = 600*ms, 300*ms, patience
		var log httpsuite.Journal
		var silent httpsuite.Gate
		limits.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool { return err.Phase == "handshake" && silent.Keep(c, err) }
		s := startInMemory(t, true, limits, func(w http.ResponseWriter, r *http.Request) { time.Sleep(2 * limits.KeepAliveTimeout) },
			func(server *http.Server) {
				server.ErrorLog.SetOutput(&log)
				prepareHTTP2(server)
				server.TLSNextProto = handOvers{overTLS: server.TLSNextProto[overTLS]}
			})
		f := s.dial2()
		f.get(1)
		f.Drain()
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
		silent.Open()
		s.Dial("h2").Drain() // a preface that does not come is not logged
		httpsuite.Eventually(t, "it is counted", func() bool { return s.Stats().Phases["handshake"] == 1 })
		if text := log.Text(); !strings.Contains(text, withoutStreams) || strings.Count(text, "\n") != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// A server that x/net/http2 has configured serves HTTP/2. If frames can be read, its
// streams have limits. Otherwise the log says that they have none.
func TestHTTP2OfXNet(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		probe := new(http.Server)
		configureLikeXNet(probe)
		readable := probe.TLSNextProto[plain] != nil
		limits := httpsuite.Off()
		if readable {
			limits.WriteTimeout = 300 * ms
		} else {
			limits.StreamTimeout = 300 * ms
		}
		var log httpsuite.Journal
		s := startInMemory(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("more than no window"))
		}, func(server *http.Server) {
			server.ErrorLog.SetOutput(&log)
			configureLikeXNet(server)
		})
		f := s.dial2()
		f.get(1)
		f.Send(frame(typeSettings, 0, 0, "\x00\x04"+number(noWindow)))
		f.open(3, getBlock, endStream)
		if readable {
			f.wantReset(3)
			s.wantReset(1)
		} else {
			f.Drain()
			s.WantOnly(1, "streams", idle.ReasonIdle)
		}
		if says := strings.Contains(log.Text(), withoutStreams); says == readable {
			t.Errorf("logged:\n%s", log.Text())
		}
	})
}

// configureLikeXNet does what x/net/http2.ConfigureServer does. Since Go 1.27 it serves
// a listener that net/http recognizes by its methods. With earlier versions it fills in
// TLSNextProto.
func configureLikeXNet(server *http.Server) {
	if server.Serve(xnet{}) != nil {
		other := &http.Server{Protocols: server.Protocols}
		other.Serve(nowhere{})
		server.TLSNextProto = other.TLSNextProto
	}
}

type xnet struct{ nowhere }

func (xnet) HTTP2Config() (c http.HTTP2Config) { return c }
func (xnet) IdleTimeout() time.Duration        { return 0 }

func (xnet) ServeConnFunc(func(context.Context, net.Conn, http.Handler, bool, *http.Request, []byte)) {
}
