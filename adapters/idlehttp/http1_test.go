package idlehttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// callAgain has a handler call the server's own, as a rewriting one does, with r changed.
func callAgain(w http.ResponseWriter, r *http.Request, change func(*http.Request)) {
	inner := r.Clone(r.Context())
	change(inner)
	r.Context().Value(http.ServerContextKey).(*http.Server).Handler.ServeHTTP(w, inner)
}

// TestAnswers: clients whose body stops, or whose handler is late, get the handler's answer if it has begun one. A
// 408 or 503 would make them repeat a request that has been carried out.
func TestAnswers(t *testing.T) {
	const limit = time.Second
	type answer struct {
		limit  string
		h      http.HandlerFunc
		status int
	}
	refused := func(w http.ResponseWriter, r *http.Request) { // what it has set belongs to the answer that it doesn't give
		w.Header().Set("Content-Length", "6")
		w.Header().Set("Set-Cookie", "placed=1")
		w.WriteHeader(http.StatusEarlyHints)
		io.ReadAll(r.Body)
	}
	tests := map[string]answer{
		"BodyTimeout":    {"BodyTimeout", refused, http.StatusRequestTimeout},
		"HandlerTimeout": {"HandlerTimeout", refused, http.StatusServiceUnavailable},
		"full duplex before the response": {"BodyTimeout", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			_, err := io.ReadAll(r.Body)
			var timeout *idle.TimeoutError
			if !errors.As(err, &timeout) || timeout.Setting != "BodyTimeout" {
				t.Errorf("the handler got %v, want BodyTimeout", err)
			}
		}, http.StatusRequestTimeout},
		"closes the body": {"BodyTimeout", func(_ http.ResponseWriter, r *http.Request) { r.Body.Close() }, http.StatusRequestTimeout}, // net/http reads it before
		"by the server's handler": {"BodyTimeout", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/error" {
				w.WriteHeader(http.StatusTeapot)
			} else if _, err := io.ReadAll(r.Body); err != nil {
				callAgain(w, r, func(page *http.Request) { page.URL.Path = "/error" })
			}
		}, http.StatusTeapot},
		"too large": {"", func(w http.ResponseWriter, r *http.Request) { // isn't awaited, as with the bare server
			if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10)); err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			}
		}, http.StatusRequestEntityTooLarge},
	}
	for _, limit := range []string{"BodyTimeout", "HandlerTimeout"} {
		for how, test := range map[string]answer{
			"header":   {h: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, status: http.StatusCreated},
			"body":     {h: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "placed") }, status: http.StatusOK},
			"returned": {h: func(w http.ResponseWriter, _ *http.Request) {}, status: http.StatusOK},
			// net/http reads the rest of the body before it sends these.
			"flush": {h: func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, status: http.StatusOK},
			"long": {h: func(w http.ResponseWriter, _ *http.Request) {
				w.Write(make([]byte, 2000))
				w.Write(make([]byte, 1000))
			}, status: http.StatusOK},
			"string": {h: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 3000)) }, status: http.StatusOK},
			"ReadFrom": {h: func(w http.ResponseWriter, _ *http.Request) {
				w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("x", 3000)))
			}, status: http.StatusOK},
		} {
			tests[limit+" "+how] = answer{limit, func(w http.ResponseWriter, r *http.Request) {
				io.ReadFull(r.Body, make([]byte, 3))
				test.h(w, r)
			}, test.status}
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			limits := httpsuite.Only(limit)
			if test.limit != "" {
				limits = httpsuite.Only(limit, test.limit)
			}
			inMemory(t, limits, test.h, func(t *testing.T, s *site, c *httpsuite.Client) {
				begun := c.Send(httpsuite.Post(100) + strings.Repeat("a", 50))
				r := c.Response()
				for r.StatusCode == http.StatusEarlyHints {
					r = c.Response()
				}
				took := time.Since(begun)
				if r.StatusCode != test.status || took > 2*limit || test.limit == "" && took > 0 {
					t.Errorf("%s after %v, want %d", r.Status, took, test.status)
				}
				refused := test.status == http.StatusRequestTimeout || test.status == http.StatusServiceUnavailable
				if refused && (r.Header["Set-Cookie"] != nil || r.ContentLength > 0) || (refused || test.limit == "") && !r.Close {
					t.Errorf("the answer is %v", r)
				}
				c.Close()
			})
		})
	}
}

// TestTimeoutAfterInterim has a body stop after interim responses, which is answered; or HandlerTimeout pass when the final
// response has begun after them, which isn't.
func TestTimeoutAfterInterim(t *testing.T) {
	const expecting = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
	hints := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }
	reads := func(_ http.ResponseWriter, r *http.Request) { r.Body.Read(make([]byte, 1)) }
	for name, of := range map[string]struct {
		request string
		handle  http.HandlerFunc
		want    []string
	}{
		"Continue":   {expecting, reads, []string{"HTTP/1.1 100 Continue"}},
		"EarlyHints": {httpsuite.Post(10), hints, []string{"HTTP/1.1 103 Early Hints"}},
		"OldClient":  {strings.Replace(httpsuite.Post(10), "HTTP/1.1", "HTTP/1.0", 1), hints, []string{"HTTP/1.0 103 Early Hints"}},
		"Both": {expecting, func(w http.ResponseWriter, r *http.Request) { hints(w, r); reads(w, r) },
			[]string{"HTTP/1.1 103 Early Hints", "HTTP/1.1 100 Continue"}},
		"Controller": {expecting, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			rc.EnableFullDuplex()
			rc.SetWriteDeadline(time.Now().Add(patience))
			reads(w, r)
		}, []string{"HTTP/1.1 100 Continue"}},
	} {
		for _, limit := range []string{"BodyTimeout", "HandlerTimeout"} {
			t.Run(name+" "+limit, func(t *testing.T) {
				inMemory(t, httpsuite.Only(300*ms, limit), func(w http.ResponseWriter, r *http.Request) {
					of.handle(w, r)
					if limit == "BodyTimeout" {
						io.Copy(io.Discard, r.Body)
						return
					}
					for err := error(nil); err == nil; time.Sleep(10 * ms) {
						err = http.NewResponseController(w).Flush()
						io.WriteString(w, "more")
					}
				}, func(t *testing.T, s *site, c *httpsuite.Client) {
					c.Send(of.request)
					for _, want := range of.want {
						c.Line(want + "\r")
						c.Line("\r")
					}
					if limit == "BodyTimeout" {
						c.Refused(http.StatusRequestTimeout)
						return
					}
					c.Send("hello, you")
					got, err := io.ReadAll(c.In)
					if !httpsuite.IsEnd(err) || !strings.Contains(string(got[:min(len(got), 17)]), " 200 OK\r\n") || strings.Count(string(got), "HTTP/1.") != 1 {
						t.Errorf("got %q, %v", got, err)
					}
				})
			})
		}
	}
}

// With EnableFullDuplex a handler of HTTP/1 reads the body while it writes the response. Once the response has begun, client
// and handler may be in a conversation, so either may be silent for any time.
func TestFullDuplex(t *testing.T) {
	const limit, rounds = time.Second, 20
	inMemory(t, httpsuite.Only(limit, "BodyTimeout", "BodyRate"), func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		httpsuite.NoError(t, rc.EnableFullDuplex())
		rc.Flush()
		for b := make([]byte, 4); ; rc.Flush() {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				if err != io.EOF {
					t.Errorf("the handler got %v", err)
				}
				return
			}
			w.Write(b)
		}
	}, func(t *testing.T, s *site, c *httpsuite.Client) {
		c.Send(httpsuite.Post(4 * rounds))
		response := c.Response()
		for i := range rounds {
			time.Sleep(3 * limit)
			c.Send("ping")
			if _, err := io.ReadFull(response.Body, make([]byte, 4)); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
			t.Errorf("the response goes on with %q, %v", rest, err)
		}
		s.WantNone()
	})
}

// TestUnreadBodyIsLimited has a handler that leaves a body to net/http after EnableFullDuplex. net/http reads the
// rest, which is limited then. Otherwise a client could hold the connection for any time.
func TestUnreadBodyIsLimited(t *testing.T) {
	const limit = time.Second
	inMemory(t, httpsuite.Only(limit, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.(http.Flusher).Flush()
	}, func(t *testing.T, s *site, c *httpsuite.Client) {
		c.Send(httpsuite.Post(100) + "x")
		time.Sleep(3 * limit)
		s.WantOnly(1, "request", idle.ReasonRead)
	})
}

// TestBodyOfAnEarlierRequest is read by a goroutine that a handler has left behind. The limits of the next request still count.
func TestBodyOfAnEarlierRequest(t *testing.T) {
	const limit = time.Second
	inBubbles(t, func(t *testing.T, secure bool) {
		var old io.Reader
		s := startInMemory(t, secure, httpsuite.Only(limit, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
			if old == nil {
				old = r.Body
				return
			}
			time.AfterFunc(limit/2, func() { old.Read(make([]byte, 1)) })
			io.ReadAll(r.Body)
		})
		c := s.Dial()
		c.Send(httpsuite.Post(4) + "body")
		c.Want(http.StatusOK)
		c.Send(httpsuite.Post(4) + "bod")
		c.Refused(http.StatusRequestTimeout)
		s.WantOnly(1, "request", idle.ReasonRead)
	})
}

// TestSlowReaderOfALongResponse has sent a part of its body only. While the handler writes, only the limits of writing count.
func TestSlowReaderOfALongResponse(t *testing.T) {
	const limit = time.Second
	for _, timed := range []time.Duration{Off, time.Hour} {
		for _, duplex := range []bool{false, true} {
			t.Run(fmt.Sprintf("HandlerTimeout %v, full duplex %v", timed, duplex), func(t *testing.T) {
				limits := httpsuite.Only(limit, "BodyTimeout", "BodyRate")
				limits.HandlerTimeout = timed
				inMemory(t, limits, func(w http.ResponseWriter, r *http.Request) {
					if duplex {
						http.NewResponseController(w).EnableFullDuplex()
					}
					r.Body.Read(make([]byte, 100))
					for range 10 {
						if _, err := w.Write(make([]byte, 40_000)); err != nil {
							t.Error(err)
						}
					}
				}, func(t *testing.T, s *site, c *httpsuite.Client) {
					c.Send(httpsuite.Post(10<<20) + strings.Repeat("x", 1000))
					n, body := int64(0), c.Response().Body
					for err := error(nil); err == nil; time.Sleep(limit) {
						var m int64
						m, err = io.CopyN(io.Discard, body, 10_000)
						n += m
					}
					if n != 400_000 {
						t.Errorf("got %d bytes", n)
					}
					s.WantNone()
					c.Close()
				})
			})
		}
	}
}

// TestTrailers of a request get to the handler as with net/http alone, whether the request has announced them or not.
func TestTrailers(t *testing.T) {
	inMemory(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, r.Trailer.Get("Sum"))
	}, func(t *testing.T, s *site, c *httpsuite.Client) {
		for _, header := range []string{"Trailer: Sum\r\n", ""} {
			c.Send("POST / HTTP/1.1\r\nHost: test\r\n" + header + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nSum: 42\r\n\r\n")
			if got := c.Want(http.StatusOK); got != "42" {
				t.Errorf("with the header %q the trailer is %q", header, got)
			}
		}
	})
}

// TestHandlerInHandler has a handler call the server's own with another path, or with a request that says HTTP/2.
func TestHandlerInHandler(t *testing.T) {
	inMemory(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "GET/":
			callAgain(w, r, func(r *http.Request) { r.URL.Path = "/inner" })
		case "POST/":
			callAgain(w, r, func(r *http.Request) { r.URL.Path, r.Proto, r.ProtoMajor, r.ProtoMinor = "/inner", "HTTP/2.0", 2, 0 })
		default:
			b, _ := io.ReadAll(r.Body)
			io.WriteString(w, "inner"+string(b))
		}
	}, func(t *testing.T, s *site, c *httpsuite.Client) {
		for request, want := range map[string]string{httpsuite.Get("/"): "inner", httpsuite.Post(1) + "x": "innerx"} {
			for range 2 {
				c.Send(request)
				if got := c.Want(http.StatusOK); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		}
	})
}

// TestWriterAfterHandler is one that a handler has kept. Between two requests it writes nothing.
func TestWriterAfterHandler(t *testing.T) {
	var kept http.ResponseWriter
	exchange := exchanger(t, true, func(w http.ResponseWriter, r *http.Request) { kept = w })
	exchange()
	kept.Header().Set("A", "b")
	kept.WriteHeader(http.StatusTeapot)
	if n, err := kept.Write(greeting); n > 0 || !errors.Is(err, errNoRequest) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if got := exchange(); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("got %q", got)
	}
}

// TestReadFromTooLong: of a source that is longer than the Content-Length, the client gets what fits, as with
// net/http alone, which writes to a socket.
func TestReadFromTooLong(t *testing.T) {
	read := make(chan int64, 1)
	serve := func(ours bool) (int64, string) {
		ln := httpsuite.Listen(t)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "600")
			n, _ := w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("a", 1200)))
			read <- n
		})}
		if ours {
			go Serve(s, ln, Timeouts{})
		} else {
			go s.Serve(ln)
		}
		defer s.Close()
		c := httpsuite.Connect(t, ln.Addr())
		c.Send("GET / HTTP/1.0\r\n\r\n")
		return <-read, c.Want(http.StatusOK)
	}
	n, body := serve(true)
	if bareN, bare := serve(false); n != bareN || body != bare || len(body) != 600 {
		t.Errorf("ReadFrom returned %d, and the client got %d bytes; with net/http alone they are %d and %d", n, len(body), bareN, len(bare))
	}
}

// TestWriterHasAllMethods: a handler finds every method of net/http's own ResponseWriter on ours.
func TestWriterHasAllMethods(t *testing.T) {
	for name, limits := range map[string]Timeouts{"": {}, "timed": {HandlerTimeout: time.Minute}} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2: %v", name, http2), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := startInMemory(t, false, limits, func(w http.ResponseWriter, r *http.Request) {
						own := w
						for unwrapped := true; unwrapped; {
							switch ours := own.(type) {
							case *timedHTTP1:
								own = ours.writer
							case *timedHTTP2:
								own = ours.writer
							case *exchange:
								own = ours.ResponseWriter
							case *stream:
								own = ours.ResponseWriter
							default:
								unwrapped = false
							}
						}
						for m := range reflect.TypeOf(own).Methods() {
							if has, ok := reflect.TypeOf(w).MethodByName(m.Name); !ok || has.Type.NumIn() != m.Type.NumIn() || has.Type.NumOut() != m.Type.NumOut() {
								t.Errorf("net/http's %T has %s, %T has not", own, m.Name, w)
							}
						}
					})
					s.do(s.transport(http2), nil)
				})
			})
		}
	}
}

// TestH2CIsRefused: HTTP/2 of golang.org/x/net/http2/h2c would have no limits, because that hijacks connections, when a
// client begins with HTTP/2, or when it offers to upgrade. The error says what to use in its place.
func TestH2CIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused int
		s := startHTTP1(t, all(patience), func(w http.ResponseWriter, r *http.Request) { // as there
			if r.Method != "PRI" && r.Header.Get("Upgrade") != "h2c" {
				io.WriteString(w, r.Proto)
			} else if _, _, err := w.(http.Hijacker).Hijack(); errors.Is(err, errH2C) {
				refused++
			} else {
				t.Errorf("hijacking: %v", err)
			}
		})
		c := s.Dial()
		io.WriteString(c, preface)
		c.Drain()
		c = s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		c.Want(http.StatusOK)
		c.Close()
		if refused != 1 {
			t.Errorf("%d were refused, want the first", refused)
		}
		s.WantNone()
	})
}
