package idlehttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// A took is a duration that is known later. (A channel from outside the bubble would hold up virtual time.)
type took struct{ d atomic.Int64 }

func (x *took) set(d time.Duration) { x.d.Store(int64(d) + 1) }

// within returns it, or false after the given time.
func (x *took) within(max time.Duration) (time.Duration, bool) {
	for begun := time.Now(); time.Since(begun) < max; time.Sleep(time.Second) {
		if d := x.d.Load(); d != 0 {
			return time.Duration(d), true
		}
	}
	return 0, false
}

// rawSite starts a server of HTTP/2 without TLS, and connects to it by a network with the given buffer.
func rawSite(t *testing.T, buffer int, h http.HandlerFunc) (*site, net.Conn) {
	network := simnet.Listen(simnet.Config{Buffer: buffer, Kernel: simnet.Whole})
	s := startOn(t, network, false, Timeouts{}, h, func(server *http.Server) { speak2(server, false) })
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

// TestHTTP2WriteAfterLateBody: the limits of writing count after a body was late.
func TestHTTP2WriteAfterLateBody(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		var done took
		virtually(t, secure, Timeouts{}, noWindow, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // fails
			begun := time.Now()
			w.Write(make([]byte, 100_000))
			done.set(time.Since(begun))
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			f.again(ping, time.Minute)
			go io.Copy(io.Discard, f.In)
			if _, ok := done.within(3 * time.Hour); !ok {
				t.Error("the response waits for 3 hours for a client that takes nothing")
			}
		})
	})
}

// TestHTTP2HandlerTimeoutAfterLateBody: so does HandlerTimeout.
func TestHTTP2HandlerTimeoutAfterLateBody(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		var done took
		virtually(t, secure, Timeouts{HandlerTimeout: time.Minute}, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			io.Copy(io.Discard, r.Body) // fails
			select {
			case <-r.Context().Done():
			case <-time.After(time.Hour):
			}
			done.set(time.Since(begun))
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			f.again(ping, time.Minute)
			go io.Copy(io.Discard, f.In)
			if d, _ := done.within(2 * time.Hour); d > 2*time.Minute {
				t.Errorf("the request took %v, with a HandlerTimeout of 1m", d)
			}
		})
	})
}

// TestHTTP2UploadBehindABusyHandler: a client may not send while the body of another request, which its handler doesn't read, closes
// the window of the connection. That isn't its fault.
func TestHTTP2UploadBehindABusyHandler(t *testing.T) {
	var late atomic.Bool
	virtual(t, Timeouts{}, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("busy") != "" {
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
			}
			io.Copy(io.Discard, r.Body)
			return
		}
		_, err := io.Copy(io.Discard, r.Body)
		late.Store(err != nil)
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
		if late.Load() {
			t.Error("late")
		}
	})
}

// TestHTTP2HalfTheRate: bytes of a frame that trickles count once, when they arrive or when the handler gets them.
func TestHTTP2HalfTheRate(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		var done took
		virtually(t, secure, Timeouts{}, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			io.Copy(io.Discard, r.Body)
			done.set(time.Since(begun))
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			f.data(1, 14_000, 0) // pays for a minute
			over := make(chan bool)
			defer close(over)
			go func() {
				for {
					const size = 28 * 130
					text := "\x00" + string([]byte{size >> 8, size & 255}) + frame(typeData, 0, 1, "")[3:] + strings.Repeat("x", size)
					for len(text) > 0 { // 130 B/s
						select {
						case <-over:
							return
						case <-time.After(time.Second):
						}
						n := min(len(text), 130)
						if _, err := io.WriteString(f.Conn, text[:n]); err != nil {
							return
						}
						text = text[n:]
					}
				}
			}()
			go io.Copy(io.Discard, f.In)
			if d, ok := done.within(time.Hour); !ok {
				t.Error("130 B/s hold a body for an hour; BodyRate is 240 B/s")
			} else {
				t.Log(d)
			}
		})
	})
}

// TestHTTP2SmallResponsesOverASlowLink: responses that wait for others of their connection are not late.
func TestHTTP2SmallResponsesOverASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nc := rawSite(t, 4<<10, func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, 4000))
		})
		const n = 40
		go func() {
			io.WriteString(nc, preface+frame(typeSettings, 0, 0, "")+frame(typeWindowUpdate, 0, 0, number(1<<20)))
			for i := range uint32(n) {
				io.WriteString(nc, frame(typeHeaders, endHeaders|endStream, 1+2*i, getBlock))
			}
		}()
		in := bufio.NewReaderSize(slowly{nc, 2000}, 200)
		for ended := 0; ended < n; {
			g, err := readFrame(in) // 160 kB take 80 s
			if err != nil {
				t.Fatal(err)
			}
			if g.kind == typeReset {
				t.Errorf("stream %d is reset when %d have ended", g.stream, ended)
				break
			}
			if g.kind <= typeHeaders && g.flags&endStream != 0 {
				ended++
			}
		}
	})
}

// TestHTTP2OwnReadDeadline: a read deadline that the handler sets replaces the limits of the body.
func TestHTTP2OwnReadDeadline(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		var done took
		virtually(t, secure, Timeouts{}, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * time.Minute))
			SetLimits(r, RequestLimits{WriteTimeout: time.Minute})
			begun := time.Now()
			io.Copy(io.Discard, r.Body)
			done.set(time.Since(begun))
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			if d, _ := done.within(10 * time.Minute); d < 2*time.Minute {
				t.Errorf("the read fails after %v, and the handler's deadline is 2m", d)
			}
		})
	})
}

// TestHTTP2TricklesTheLastResponse: a client that takes its last response at 20 B/s doesn't hold its connection.
func TestHTTP2TricklesTheLastResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nc := rawSite(t, 64<<10, func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, 60_000))
		})
		io.WriteString(nc, hello+request)
		time.Sleep(time.Second)
		go io.Copy(io.Discard, slowly{nc, 20})
		begun := time.Now()
		for time.Since(begun) < time.Hour && s.Stats().Live > 0 {
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took > 3*time.Minute {
			t.Errorf("open for %v", took)
		}
		nc.Close()
		time.Sleep(time.Second)
	})
}

// TestHTTP2PingsSlowerThanWriteRate: PINGs whose answers are taken at 20 B/s hold no connection.
func TestHTTP2PingsSlowerThanWriteRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nc := rawSite(t, 4<<10, answers)
		go func() {
			for _, err := io.WriteString(nc, hello+strings.Repeat(ping, 800)); err == nil; _, err = io.WriteString(nc, ping) {
				time.Sleep(time.Second)
			}
		}()
		go io.Copy(io.Discard, slowly{nc, 20})
		time.Sleep(time.Minute)
		if n := s.Stats().Live; n > 0 {
			t.Error("open after a minute")
		}
		nc.Close()
		time.Sleep(2 * time.Second)
	})
}

// TestHTTP2NoGoAwayInAFrame: a client that resets its last stream may be in the middle of a frame.
func TestHTTP2NoGoAwayInAFrame(t *testing.T) {
	for _, size := range []int{500, 1000, 2000, 3000, 4096, 5000} {
		synctest.Test(t, func(t *testing.T) {
			s, nc := rawSite(t, size, func(w http.ResponseWriter, r *http.Request) {
				w.Write([]byte(strings.Repeat("x", 60_000)))
			})
			io.WriteString(nc, hello+request)
			time.Sleep(time.Second) // the frame waits for room
			io.WriteString(nc, frame(typeReset, 0, 1, number(8)))
			time.Sleep(time.Second)
			s.Tracker().Visit(context.Background(), func(i idle.Info) { i.End("asked to") })
			time.Sleep(100 * ms)
			for {
				g, err := readFrame(nc)
				if err != nil {
					if strings.Contains(string(g.payload), "\x00\x08\x07") {
						t.Errorf("buffer %d: a GOAWAY of ours after %d bytes of a DATA frame of %d", size, strings.Index(string(g.payload), "\x00\x00\x08"), len(g.payload))
					}
					break
				}
				if g.kind == typeData && strings.Trim(string(g.payload), "x") != "" {
					t.Errorf("buffer %d: a DATA frame with %q in it", size, strings.Trim(string(g.payload), "x"))
				}
			}
		})
	}
}

// TestHTTP2TrackerClose: closing the tracker of the connections ends the limits of their streams.
func TestHTTP2TrackerClose(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		var late atomic.Bool
		virtually(t, secure, Timeouts{}, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			late.Store(err != nil)
		}, func(t *testing.T, f framed) {
			f.get(1)
			f.site.Tracker().Close()
			f.open(3, postBlock, 0)
			time.Sleep(time.Minute)
			if late.Load() {
				t.Error("BodyTimeout or BodyRate still counts after Tracker().Close()")
			}
			f.data(3, 1, endStream)
		})
	})
}

// TestProtoTwoOnHTTPOne: a handler of HTTP/1 may call the server's Handler with a request that says HTTP/2.
func TestProtoTwoOnHTTPOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
		var server *http.Server
		var panicked atomic.Value
		startOn(t, network, false, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 1 {
				r2 := r.Clone(r.Context())
				r2.Proto, r2.ProtoMajor, r2.ProtoMinor = "HTTP/2.0", 2, 0
				defer func() {
					if e := recover(); e != nil {
						panicked.Store(e)
					}
				}()
				server.Handler.ServeHTTP(w, r2)
				return
			}
			io.Copy(io.Discard, r.Body)
		}, func(sv *http.Server) { server = sv; speak2(sv, false) })
		nc, _ := network.Dial()
		io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
		io.ReadAll(nc)
		if e := panicked.Load(); e != nil {
			t.Errorf("panic: %v", e)
		}
	})
}
