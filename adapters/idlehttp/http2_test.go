package idlehttp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// Handlers of the tests in virtual time.

func reads(_ http.ResponseWriter, r *http.Request)  { io.Copy(io.Discard, r.Body) }
func writes(w http.ResponseWriter, r *http.Request) { w.Write(httpsuite.Large) }
func waits(_ http.ResponseWriter, r *http.Request)  { <-r.Context().Done() }
func small(w http.ResponseWriter, _ *http.Request)  { w.Write(make([]byte, 10)) }

// answers writes a small response, whose end is written before net/http tells that
// the connection is idle.
func answers(w http.ResponseWriter, _ *http.Request) {
	http.NewResponseController(w).Flush()
	time.Sleep(ms)
	w.Write(make([]byte, 4096))
}

// What a handler pushes is promised.
func TestHTTP2Push(t *testing.T) {
	virtual(t, all(patience), defaultWindow, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			httpsuite.NoError(t, w.(http.Pusher).Push("/pushed", nil))
		}
	}, func(t *testing.T, f framed) {
		f.open(1, getBlock, endStream)
		const typePushPromise = 5
		f.wantFrame("a promise", func(g got) bool { return g.kind == typePushPromise && g.code(0) == 2 })
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
		s := startInMemory(t, true, limits, unreachable(t), func(server *http.Server) { server.ErrorLog.SetOutput(&log) })
		c := s.Dial("h2")
		c.Send(httpsuite.Get("/something/else"))
		c.Drain()
		for _, part := range []string{"", preface[:5]} {
			c := s.Dial("h2")
			io.WriteString(c, part)
			httpsuite.NotBefore(t, c.Drain(), c.Begun, limits.HandshakeTimeout)
		}
		s.WantOnly(2, "handshake", idle.ReasonPhase)
		if text := log.Text(); !strings.Contains(text, `bogus greeting "GET /something/else HTTP"`) || strings.Count(text, "\n") != 1 {
			t.Errorf("logged:\n%s", text)
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
		for i := range 20 {
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

// TestHTTP2FormFiles: the files of a form are removed when the handler has returned.
func TestHTTP2FormFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := startInMemory(t, false, all(patience), func(w http.ResponseWriter, r *http.Request) {
		httpsuite.NoError(t, r.ParseMultipartForm(1))
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

// OnTimeout is asked about streams as well. The limit of one that is kept starts over. OnEnds gets connections, and no streams.
func TestHTTP2OnTimeout(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		var mu sync.Mutex
		var ends []idle.End
		asked := 0
		limits := Timeouts{WriteTimeout: time.Second, OnTimeout: func(c net.Conn, err *idle.TimeoutError) bool {
			mu.Lock()
			defer mu.Unlock()
			if c.RemoteAddr() == nil || err.Phase != "request stream" || err.Reason != idle.ReasonWrite || err.Setting != "WriteTimeout" {
				t.Errorf("asked about %v: %v", c.RemoteAddr(), err)
			}
			asked++
			return asked < 3
		}}
		limits.Idle.OnEnds = func(all []idle.End) {
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, all...)
		}
		f := startInMemory(t, secure, limits, writes).dialFramed(noWindow)
		begun := f.open(1, getBlock, endStream)
		httpsuite.NotBefore(t, f.wantReset(1), begun, 3*limits.WriteTimeout)
		f.open(3, getBlock, endStream)
		f.wantReset(3)
		f.site.wantReset(2)
		f.Close()
		f.site.Settled()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(ends) != 1 || ends[0].Label == "" {
			t.Errorf("%+v", ends)
		}
	})
}

// TestHTTP2EndsOfResponses: a client that doesn't take small responses, which only net/http can send when their handler
// has returned, is ended with its connection when eight of them have piled up, whatever else it does.
func TestHTTP2EndsOfResponses(t *testing.T) {
	virtual(t, Timeouts{}, noWindow, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			waits(w, r)
		}
		small(w, r)
	}, func(t *testing.T, f framed) {
		f.open(1, postBlock, endStream)
		begun := time.Now()
		for i := range uint32(8) {
			f.open(3+2*i, getBlock, endStream)
		}
		f.again(ping, time.Second)
		if took := f.Drain().Sub(begun); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it took %v", took)
		}
		if st := f.site.Settled(); st.Limits["WriteRate"] != 1 || st.Shed != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestHTTP2EndsOfResponsesTaken: a client that takes them in time lives.
func TestHTTP2EndsOfResponsesTaken(t *testing.T) {
	virtual(t, Timeouts{}, noWindow, small, func(t *testing.T, f framed) {
		for i := range uint32(20) {
			f.open(1+2*i, getBlock, endStream)
		}
		time.Sleep(4 * time.Second)
		for i := range uint32(20) {
			f.update(1+2*i, 10)
			f.wantEnd(1 + 2*i)
		}
		time.Sleep(20 * time.Second)
		f.site.wantReset(0)
	})
}

// TestHTTP2HandlerEnds: how long handlers take whose client sends only PINGs.
func TestHTTP2HandlerEnds(t *testing.T) {
	for name, test := range map[string]struct {
		limits      Timeouts
		h           http.HandlerFunc
		least, most time.Duration
	}{
		// The limits of writing count after a body was late, and so does HandlerTimeout.
		"write after a late body": {Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			reads(w, r)
			w.Write(make([]byte, 100_000))
		}, 0, 10 * time.Minute},
		"HandlerTimeout after a late body": {Timeouts{HandlerTimeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			reads(w, r)
			stall(r)
		}, 0, 2 * time.Minute},
		// A read deadline that the handler sets replaces the limits of the body.
		"own deadline": {Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * time.Minute))
			SetLimits(r, RequestLimits{WriteTimeout: time.Minute})
			reads(w, r)
		}, 2 * time.Minute, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, secure bool) {
				ended := make(chan bool, 1)
				f := startInMemory(t, secure, test.limits, func(w http.ResponseWriter, r *http.Request) {
					test.h(w, r)
					ended <- true
				}).dialFramed(noWindow)
				begun := f.open(1, postBlock, 0)
				f.again(ping, time.Minute)
				go io.Copy(io.Discard, f.In)
				select {
				case <-ended:
				case <-time.After(test.most):
				}
				if took := time.Since(begun); took < test.least || took >= test.most {
					t.Errorf("the handler took %v, want %v to %v", took, test.least, test.most)
				}
			})
		})
	}
}

// TestHTTP2HalfTheRate: bytes of a frame that trickles count once, when they arrive or when the handler gets them.
func TestHTTP2HalfTheRate(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, reads, func(t *testing.T, f framed) {
		begun := f.open(1, postBlock, 0)
		f.data(1, 14_000, 0) // pays for a minute
		go func() {
			const size, rate = 28 * 130, 130 // bytes a second
			text := []byte("\x00" + string([]byte{size >> 8, size & 255}) + frame(typeData, 0, 1, "")[3:] + strings.Repeat("x", size))
			for err := error(nil); err == nil; {
				for b := text; len(b) > 0 && err == nil; b = b[min(len(b), rate):] {
					time.Sleep(time.Second)
					_, err = f.Write(b[:min(len(b), rate)])
				}
			}
		}()
		f.wantReset(1)
		if took := time.Since(begun); took > time.Hour {
			t.Errorf("130 B/s hold a body for %v; BodyRate is 240 B/s", took)
		}
		f.Close()
		time.Sleep(2 * time.Second)
	})
}

// TestHTTP2UploadBehindABusyHandler: a client may not send while the body of another request, which its handler
// doesn't read, closes the window of the connection. That isn't its fault.
func TestHTTP2UploadBehindABusyHandler(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("busy") != "" {
			time.Sleep(time.Minute)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil && r.Header.Get("busy") == "" {
			t.Error("late")
		}
	}, func(t *testing.T, f framed) {
		f.open(1, postBlock+"\x00\x04busy\x01x", 0)
		f.wantFrame("the server's window", func(g got) bool { return g.kind == typeWindowUpdate })
		whole := "\x00\x40\x00" + frame(typeData, 0, 1, "")[3:] + strings.Repeat("x", 1<<14)
		for range 64 {
			f.Send(whole) // 1 MB, all that the connection's window allows
		}
		f.open(3, postBlock, 0) // its client may not send a byte of its body
		f.wantFrame("more of it", func(g got) bool { return g.kind == typeWindowUpdate })
		f.data(3, 100, endStream)
		f.wantEnd(3)
	})
}

// TestHTTP2TrackerClose: closing the tracker of the connections ends the limits of their streams.
func TestHTTP2TrackerClose(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, reads, func(t *testing.T, f framed) {
		f.get(1)
		f.site.Tracker().Close()
		f.open(3, postBlock, 0)
		time.Sleep(time.Minute)
		f.data(3, 1, endStream)
		f.wantEnd(3)
		f.site.wantReset(0)
	})
}

// rawSite starts a server without TLS, and connects to it by a network with the given buffer.
func rawSite(t *testing.T, buffer int, limits Timeouts, h http.HandlerFunc) (*site, net.Conn) {
	network := simnet.Listen(simnet.Config{Buffer: buffer, Kernel: simnet.Whole})
	s := startOn(t, network, false, limits, h, func(server *http.Server) { speak2(server, false) })
	s.Memory = network
	nc, err := network.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return s, nc
}

// slowly reads n bytes a second.
type slowly struct {
	nc net.Conn
	n  int
}

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(100 * ms)
	return s.nc.Read(b[:min(len(b), s.n/10)])
}

// TestHTTP2SmallResponsesOverASlowLink: responses that wait for others of their connection are not late.
func TestHTTP2SmallResponsesOverASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nc := rawSite(t, 4<<10, Timeouts{}, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 4000)) })
		const n = 40
		go func() {
			io.WriteString(nc, hello+frame(typeWindowUpdate, 0, 0, number(1<<20)))
			for i := range uint32(n) {
				io.WriteString(nc, frame(typeHeaders, endHeaders|endStream, 1+2*i, getBlock))
			}
		}()
		in := bufio.NewReaderSize(slowly{nc, 2000}, 200)
		for ended := 0; ended < n; {
			g, err := readFrame(in) // 160 kB take 80 s
			if err != nil || g.kind == typeReset {
				t.Fatalf("stream %d is reset, or %v, when %d have ended", g.stream, err, ended)
			}
			if g.kind <= typeHeaders && g.flags&endStream != 0 {
				ended++
			}
		}
	})
}

// TestHTTP2ReadsSlowly: a client that takes its last response at 20 B/s doesn't hold its connection, nor does one
// that takes answers to PINGs so slowly.
func TestHTTP2ReadsSlowly(t *testing.T) {
	for name, test := range map[string]struct {
		buffer int
		h      http.HandlerFunc
		text   string
		most   time.Duration
	}{
		"response": {64 << 10, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 60_000)) }, hello + request, 3 * time.Minute},
		"PINGs":    {4 << 10, answers, hello + strings.Repeat(ping, 800), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nc := rawSite(t, test.buffer, Timeouts{}, test.h)
				go func() {
					_, err := io.WriteString(nc, test.text)
					for ; err == nil && name == "PINGs"; time.Sleep(time.Second) {
						_, err = io.WriteString(nc, ping)
					}
				}()
				go io.Copy(io.Discard, slowly{nc, 20})
				time.Sleep(test.most)
				if s.Stats().Live > 0 {
					t.Errorf("open after %v", test.most)
				}
				nc.Close()
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// TestHTTP2NoGoAwayInAFrame: a client that resets its last stream may be in the middle of a frame.
func TestHTTP2NoGoAwayInAFrame(t *testing.T) {
	for _, size := range []int{500, 1000, 2000, 3000, 4096, 5000} {
		synctest.Test(t, func(t *testing.T) {
			s, nc := rawSite(t, size, Timeouts{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 60_000)) })
			io.WriteString(nc, hello+request)
			time.Sleep(time.Second) // the frame waits for room
			io.WriteString(nc, frame(typeReset, 0, 1, number(8)))
			time.Sleep(time.Second)
			s.Tracker().Visit(context.Background(), func(i idle.Info) { i.End("asked to") })
			time.Sleep(100 * ms)
			for err := error(nil); err == nil; {
				var g got
				if g, err = readFrame(nc); g.kind == typeData && strings.Trim(string(g.payload), "x\x00") != "" {
					t.Errorf("buffer %d: a DATA frame with %q in it", size, strings.Trim(string(g.payload), "x\x00"))
				}
			}
		})
	}
}
