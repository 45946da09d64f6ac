package idlehttp

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// The settings of a server hold for HTTP/2, those too that are made after Wrap.
func TestHTTP2Settings(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		var log httpsuite.Journal
		handled := make(chan string, 2)
		s := startInMemory(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			handled <- r.Method
			panic("on purpose")
		}, func(server *http.Server) {
			server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 77}
			server.ErrorLog.SetOutput(&log)
			server.ErrorLog.SetPrefix("mine: ")
		})
		s.server.MaxHeaderBytes = 100_000
		s.server.DisableGeneralOptionsHandler = true
		f := s.dial2()
		settings := map[uint16]uint32{}
		f.wantFrame("the server's settings", func(g got) bool {
			for b := g.payload; g.kind == typeSettings && len(b) >= 6; b = b[6:] {
				settings[binary.BigEndian.Uint16(b)] = binary.BigEndian.Uint32(b[2:])
			}
			return len(settings) > 0
		})
		const maxStreams, maxHeaderList = 3, 6
		if n, size := settings[maxStreams], settings[maxHeaderList]; n != 77 || size < 100_000 || size > 101_000 {
			t.Errorf("the settings are %v", settings)
		}
		f.open(1, "\x02\x07OPTIONS\x87\x04\x01*\x41\x04test", endStream)
		if got := httpsuite.Receive(t, handled); got != "OPTIONS" {
			t.Errorf("the handler is called for %s", got)
		}
		httpsuite.Eventually(t, "the panic is logged", func() bool {
			return strings.HasPrefix(log.Text(), "mine: http2: panic serving "+f.LocalAddr().String()+": on purpose\n")
		})
	})
}

// What a handler pushes has the scheme of the request, which the server knows from the
// connection.
func TestHTTP2Push(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				if err := w.(http.Pusher).Push("/pushed", nil); err != nil {
					t.Error(err)
				}
			}
		})
		f := s.dial2()
		scheme, indexed := "\x86", byte(0x86) // http and https in HPACK's static table
		if secure {
			scheme, indexed = "\x87", 0x87
		}
		f.open(1, "\x82"+scheme+"\x84\x41\x04test", endStream)
		const typePushPromise = 5
		f.wantFrame("a promise", func(g got) bool {
			if g.kind != typePushPromise {
				return false
			}
			if stream := g.code(0); stream != 2 || g.payload[5] != indexed {
				t.Errorf("stream %d is promised with the header %q", stream, g.payload[4:])
			}
			return true
		})
		ended := map[uint32]bool{} // in either order; Push may fail if the client leaves before the handler has returned
		f.wantFrame("the ends of both responses", func(g got) bool {
			if g.kind <= typeHeaders && g.flags&endStream != 0 {
				ended[g.stream] = true
			}
			return ended[1] && ended[2]
		})
	})
}

// A server speaks HTTP/2 over TLS without being told to, whether ServeTLS or the listener does the TLS.
func TestHTTP2ByDefault(t *testing.T) {
	for _, secure := range []bool{true, false} { // by ServeTLS, or by the listener
		synctest.Test(t, func(t *testing.T) {
			limits := httpsuite.Off()
			limits.KeepAliveTimeout = 300 * ms
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 || r.TLS == nil || !r.TLS.HandshakeComplete {
					t.Errorf("the request is of %s, with TLS %v", r.Proto, r.TLS)
				}
			})}
			network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
			ln := net.Listener(network)
			if !secure {
				ln = tls.NewListener(ln, httpsuite.ServerTLS("h2"))
			}
			s := &site{server: server, Site: httpsuite.Start(t, true, limited(server, ln, secure, limits, func(server *http.Server) {
				if secure {
					server.TLSConfig = httpsuite.ServerTLS("http/1.1")
				}
			}))}
			s.Memory = network
			f := s.dial2()
			f.get(1)
			f.Drain()
			s.WantOnly(1, "keep-alive", idle.ReasonPhase)
		})
	}
}

// What a client says instead of the preface is logged, and ends the connection. A client
// that does not go on is cut as one that does not finish the handshake, silently.
func TestHTTP2WithoutPreface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log httpsuite.Journal
		limits := httpsuite.Only(300*ms, "HandshakeTimeout")
		var silent httpsuite.Gate
		limits.OnTimeout = silent.Keep
		s := startInMemory(t, true, limits, unreachable(t), func(server *http.Server) { server.ErrorLog.SetOutput(&log) })
		c := s.Dial("h2")
		c.Send(httpsuite.Get("/something/else"))
		c.Drain()
		httpsuite.Eventually(t, "it is logged", func() bool { return strings.Contains(log.Text(), `bogus greeting "GET /something/else HTTP"`) })
		silent.Open()
		for _, part := range []string{"", preface[:5]} {
			c := s.Dial("h2")
			io.WriteString(c, part) // which may be too late
			httpsuite.NotBefore(t, c.Drain(), c.Begun, limits.HandshakeTimeout)
		}
		s.WantOnly(2, "handshake", idle.ReasonPhase)
		if strings.Count(log.Text(), "\n") != 1 {
			t.Errorf("logged:\n%s", log.Text())
		}
	})
}

// Go's own client is served, with many requests at once and large bodies both ways.
func TestHTTP2GoClient(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			io.Copy(w, r.Body)
		})
		tr := s.transport(true)
		var all sync.WaitGroup
		for i := range 40 {
			body := bytes.Repeat([]byte{byte(i)}, i*50_000)
			all.Go(func() {
				if got := s.do(tr, bytes.NewReader(body)); got != string(body) {
					t.Errorf("%d bytes of %d", len(got), len(body))
				}
			})
		}
		all.Wait()
		s.wantReset(0)
		if err := s.server.Shutdown(t.Context()); err != nil && secure { // its connection gets its farewell
			t.Error(err)
		}
	})
}

// TestHTTP2WriterHasAllMethods: a handler finds every method of net/http's own ResponseWriter on ours.
func TestHTTP2WriterHasAllMethods(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			wantAllMethods(t, w, w.(*stream).inner)
		})
		s.do(s.transport(true), nil)
	})
}

// TestHTTP2FormFiles: the files of a form are removed when the handler has returned.
func TestHTTP2FormFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := startInMemory(t, false, all(patience), func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("the form has %d files on disk", len(files))
		}
	})
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	part, _ := writer.CreateFormFile("file", "name")
	part.Write(make([]byte, 10_000))
	writer.Close()
	response, err := (&http.Client{Transport: s.transport(true)}).Post("http://"+s.Addr().String(), writer.FormDataContentType(), &form)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	httpsuite.Eventually(t, "the file is removed", func() bool { files, _ := os.ReadDir(dir); return len(files) == 0 })
}
