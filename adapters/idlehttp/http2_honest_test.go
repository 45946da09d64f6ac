package idlehttp

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// virtual runs a test of a server in virtual time, without TLS and with it. The
// client has the given window for each stream.
func virtual(t *testing.T, window uint32, h http.HandlerFunc, test func(t *testing.T, f framed)) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		synctest.Test(t, func(t *testing.T) {
			accept := newPipeListener()
			s := &site{server: &http.Server{Handler: h}}
			s.Site = httpsuite.Start(t, secure, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
				c := httpsuite.Config{Listener: accept, Log: log, Idle: idle}
				return setup(s.server, c, secure, func(server *http.Server) { speak2(server, secure) })
			})
			here, there := net.Pipe()
			defer here.Close()
			accept.conns <- there
			c := &httpsuite.Client{Conn: here, T: t, Begun: time.Now()}
			if secure {
				config := clientTLS()
				config.NextProtos = []string{"h2"}
				c.Conn = tls.Client(here, config)
			}
			c.In = bufio.NewReaderSize(spooled(c.Conn), 1<<14)
			f := framed{c, s}
			f.Send(preface + frame(typeSettings, 0, 0, "\x00\x04"+number(window)))
			test(t, f)
		})
	})
}

// spooled reads what arrives at once, as a kernel does and a pipe does not.
func spooled(nc net.Conn) io.Reader {
	s := make(spool, 10_000)
	go func() {
		defer close(s)
		for {
			b := make([]byte, 1<<14)
			n, err := nc.Read(b)
			if s <- b[:n]; err != nil {
				return
			}
		}
	}()
	return s
}

type spool chan []byte

func (s spool) Read(b []byte) (int, error) {
	got, ok := <-s
	if !ok {
		return 0, io.EOF
	}
	return copy(b, got), nil // into a bufio.Reader, so that it fits
}

// A reset that has to wait for a frame of another stream lets that take its time.
func TestHTTP2SlowFrameBesideAReset(t *testing.T) {
	virtual(t, noWindow, func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.Copy(io.Discard, r.Body); n == 0 {
			w.Write(make([]byte, 100))
		}
	}, func(t *testing.T, f framed) {
		f.open(1, getBlock, endStream) // whose response does not get through
		f.open(3, postBlock, 0)
		f.Send("\x00\x40\x00" + frame(typeData, endStream, 3, "")[3:])
		for range 1 << 14 / 512 {
			time.Sleep(2 * time.Second)
			f.Send(strings.Repeat("x", 512))
		}
		for reset, ended := false, false; !reset || !ended; {
			g, err := f.read()
			if err != nil {
				t.Fatalf("reset: %v, the other one ended: %v, then %v", reset, ended, err)
			}
			reset = reset || g.kind == typeReset && g.stream == 1
			ended = ended || g.kind <= typeHeaders && g.stream == 3 && g.flags&endStream != 0
		}
		f.site.wantReset(1)
	})
}

// A client that has gone away is not counted as one that takes nothing, though its streams
// had limits.
func TestHTTP2ClientThatLeaves(t *testing.T) {
	virtual(t, noWindow, func(w http.ResponseWriter, r *http.Request) { w.Write(httpsuite.Large) }, func(t *testing.T, f framed) {
		f.open(1, getBlock, endStream)
		synctest.Wait() // until the response does
		f.Close()
		time.Sleep(time.Hour)
		f.site.wantReset(0)
	})
}

// Clients that do what they may are served, by the default timeouts, for much
// longer than these are.
func TestHTTP2HonestClients(t *testing.T) {
	flush := func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }
	for name, test := range map[string]struct {
		window  uint32
		handler http.HandlerFunc
		client  func(t *testing.T, f framed)
	}{
		"silent events": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			time.Sleep(20 * time.Minute)
			io.WriteString(w, "event")
		}, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream)
			for range 19 {
				time.Sleep(time.Minute)
				f.Send(ping)
			}
			f.wantEnd(1)
		}},
		"long polling": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(299 * time.Second)
			io.WriteString(w, "news")
		}, func(t *testing.T, f framed) {
			for i := range uint32(5) {
				f.open(1+2*i, getBlock, endStream)
				f.wantEnd(1 + 2*i)
			}
		}},
		"long polling without a window": {noWindow, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(299 * time.Second)
			io.WriteString(w, "news")
		}, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream)
			f.wantFrame("a header", func(g got) bool { return g.kind == typeHeaders })
			f.update(1, 100)
			f.wantEnd(1)
		}},
		"upload with pauses": {defaultWindow, echo, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			for range 20 {
				f.data(1, 2000, 0)
				time.Sleep(8 * time.Second)
			}
			f.data(1, 0, endStream)
			f.wantEnd(1)
		}},
		"upload that the handler lets wait": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(4 * time.Minute)
			io.Copy(io.Discard, r.Body)
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			f.wantFrame("the server's window", func(g got) bool { return g.kind == typeWindowUpdate })
			f.open(3, postBlock, 0) // the window of the connection is closed for it
			whole := "\x00\x40\x00" + frame(typeData, 0, 1, strings.Repeat("x", 200))[3:9] + strings.Repeat("x", 1<<14)
			for range 64 {
				f.Send(whole)
			}
			f.wantFrame("more of it", func(g got) bool { return g.kind == typeWindowUpdate && g.stream == 1 })
			f.data(1, 1, endStream)
			f.wantEnd(1)
			f.data(3, 1, endStream)
			f.wantEnd(3)
		}},
		"conversation": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			for b := make([]byte, 100); ; flush(w) {
				n, err := r.Body.Read(b)
				if w.Write(b[:n]); err != nil {
					return
				}
			}
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			for range 10 {
				time.Sleep(4 * time.Minute)
				f.data(1, 10, 0)
				f.wantFrame("an answer", func(g got) bool { return g.kind == typeData && len(g.payload) == 10 })
			}
			f.data(1, 0, endStream)
			f.wantEnd(1)
		}},
		"slow download": {3000, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 60_000)) },
			func(t *testing.T, f framed) {
				f.open(1, getBlock, endStream)
				f.again(t, frame(typeWindowUpdate, 0, 1, number(3000)), 10*time.Second)
				f.wantEnd(1)
			}},
		"silent beside a slow download": {1 << 20, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				flush(w)
				time.Sleep(4 * time.Minute)
				return
			}
			w.Write(make([]byte, defaultWindow+60_000))
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, endStream)
			f.open(3, getBlock, endStream)
			f.again(t, frame(typeWindowUpdate, 0, 0, number(3000)), 10*time.Second)
			f.wantEnd(3)
			f.wantEnd(1)
		}},
		"now and then a request": {defaultWindow, echo, func(t *testing.T, f framed) {
			for i := range uint32(10) {
				f.open(1+2*i, getBlock, endStream)
				f.wantEnd(1 + 2*i)
				time.Sleep(74 * time.Second)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, test.window, test.handler, func(t *testing.T, f framed) {
				test.client(t, f)
				f.site.wantReset(0)
			})
		})
	}
}
