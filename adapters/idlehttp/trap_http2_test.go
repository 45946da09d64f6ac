package idlehttp

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// handOvers are functions by which a server hands over connections.
type handOvers = map[string]func(*http.Server, *tls.Conn, http.Handler)

// speak2 has a server speak HTTP/2.
func speak2(server *http.Server, secure bool) {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(secure)
	server.Protocols.SetUnencryptedHTTP2(!secure)
}

// HTTP/2 is handed over by functions of TLSNextProto. That for connections without
// TLS finds them in a shell, and their preface has been read. Both get a handler
// that has the context of the connection.
func TestTrapHTTP2HandOver(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		first := make(chan string, 1)
		take := func(hs *http.Server, nc net.Conn, h http.Handler) {
			ctx := h.(interface{ BaseContext() context.Context }).BaseContext()
			if hs != b.server || ctx.Value(http.ServerContextKey) != hs {
				t.Errorf("the server is %p, and the context %v", hs, ctx)
			}
			got := make([]byte, 9)
			io.ReadFull(nc, got)
			first <- string(got)
		}
		b.serve(unreachable(t), func(server *http.Server) {
			speak2(server, secure)
			server.TLSNextProto = handOvers{
				overTLS: func(hs *http.Server, tc *tls.Conn, h http.Handler) { take(hs, tc, h) },
				plain:   func(hs *http.Server, tc *tls.Conn, h http.Handler) { take(hs, unwrap(tc), h) },
			}
		})
		c := b.Dial("h2")
		c.Send(hello)
		want := map[bool]string{false: hello[len(preface):], true: preface[:9]}[secure]
		if got := httpsuite.Receive(t, first); got != want {
			t.Errorf("the first bytes are %q, want %q", got, want)
		}
		c.Drain() // once the function has returned
	})
}

// The functions that prepareHTTP2 finds serve connections with the settings of their
// server. They take any net.Conn, and what they know of TLS is what that tells. The
// server's Shutdown tells the clients.
func TestTrapHTTP2ServesAnyConnection(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil && secure || r.TLS != nil && r.TLS.NegotiatedProtocol != "h2" {
				t.Errorf("the request's TLS is %v", r.TLS)
			}
		}, func(server *http.Server) {
			speak2(server, secure)
			server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 77}
			prepareHTTP2(server)
			serve := server.TLSNextProto[plain]
			if serve == nil || server.TLSNextProto[overTLS] == nil {
				t.Fatalf("the functions are %v", server.TLSNextProto)
			}
			server.TLSNextProto = handOvers{
				plain: serve,
				overTLS: func(hs *http.Server, tc *tls.Conn, h http.Handler) {
					readPreface(hs, tc)
					serve(hs, wrap(tc), h)
				},
			}
		})
		f := framed{b.Dial("h2"), b.site}
		f.Send(hello)
		f.wantFrame("the server's settings", func(g got) bool {
			for s := g.payload; g.kind == typeSettings && len(s) >= 6; s = s[6:] {
				if binary.BigEndian.Uint16(s) == 3 && binary.BigEndian.Uint32(s[2:]) == 77 {
					return true
				}
			}
			return false
		})
		f.open(1, "\x82\x87\x84\x41\x04test", endStream)
		f.wantEnd(1)
		go b.server.Shutdown(context.Background())
		f.wantFrame("GOAWAY", func(g got) bool { return g.kind == typeGoAway })
	})
}

// A WINDOW_UPDATE of nothing has the server reset a stream, and no more, whatever
// the stream is at. Its handler fails, or what it has written is dropped.
func TestTrapHTTP2WindowUpdateOfNothing(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		ended := make(chan error, 4)
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("X") {
			case "reads":
				_, err := io.Copy(io.Discard, r.Body)
				ended <- err
			case "writes":
				_, err := w.Write(httpsuite.Large)
				ended <- err
			case "waits":
				<-r.Context().Done()
				ended <- r.Context().Err()
			default: // returns
				io.WriteString(w, "done")
			}
		}, func(server *http.Server) { speak2(server, secure) })
		f := framed{b.Dial("h2"), b.site}
		f.Send(preface + frame(typeSettings, 0, 0, "\x00\x04"+number(noWindow)))
		stream := uint32(1)
		for _, what := range []string{"reads", "writes", "waits", "returns"} {
			flags := byte(endStream)
			if what == "reads" {
				flags = 0
			}
			f.open(stream, getBlock+"\x00\x01x"+string(rune(len(what)))+what, flags)
			if what == "returns" || what == "writes" {
				f.wantFrame("a header", func(g got) bool { return g.kind == typeHeaders && g.stream == stream })
			}
			f.update(stream, 0)
			f.wantFrame("a reset", func(g got) bool {
				return g.kind == typeReset && g.stream == stream && g.code(0) == 1 // PROTOCOL_ERROR
			})
			if what != "returns" {
				if err := httpsuite.Receive(t, ended); err == nil {
					t.Errorf("the handler that %s has not failed", what)
				}
			}
			stream += 2
		}
		f.open(stream, getBlock, endStream)
		f.update(stream, 100)
		f.wantEnd(stream)
	})
}
