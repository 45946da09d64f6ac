package idlehttp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// heard is a ResponseWriter that records what is flushed, and when. It panics if two goroutines
// write at once.
type heard struct {
	httptest.ResponseRecorder
	begun    time.Time
	fails    atomic.Bool
	busy     sync.Mutex
	buffered string
	flushed  []string // "1s: text"
}

func newHeard() *heard { return &heard{ResponseRecorder: *httptest.NewRecorder(), begun: time.Now()} }

func (h *heard) Write(b []byte) (int, error) {
	h.enter()
	defer h.busy.Unlock()
	time.Sleep(ms) // a write of another goroutine would come in between
	if h.fails.Load() {
		return 0, io.ErrClosedPipe
	}
	h.buffered += string(b)
	return len(b), nil
}

func (h *heard) Flush() {
	h.enter()
	defer h.busy.Unlock()
	at := time.Since(h.begun).Round(10 * ms).String()
	h.flushed, h.buffered = append(h.flushed, at+": "+h.buffered), ""
}

func (h *heard) enter() {
	if !h.busy.TryLock() {
		panic("two goroutines write")
	}
}

// TestKeepStreamWrites checks in virtual time when comments are written, and where.
func TestKeepStreamWrites(t *testing.T) {
	const comment = ": \n\n"
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream; charset=utf-8") }
	for _, test := range []struct {
		name    string
		comment string
		h       func(w http.ResponseWriter)
		want    []string
	}{
		{"a silent handler", comment, func(w http.ResponseWriter) {
			stream(w)
			say(w, "")
			time.Sleep(25 * time.Second)
		}, []string{"0s: ", "10s: " + comment, "20s: " + comment}},
		{"events put comments off", comment, func(w http.ResponseWriter) {
			stream(w)
			say(w, "")
			for range 3 {
				time.Sleep(6 * time.Second)
				say(w, "data: 1\n\n")
			}
			time.Sleep(11 * time.Second)
		}, []string{"0s: ", "6s: data: 1\n\n", "12s: data: 1\n\n", "18s: data: 1\n\n", "28.01s: " + comment}},
		{"half an event", comment, func(w http.ResponseWriter) {
			stream(w)
			say(w, "data: 1\n")
			time.Sleep(25 * time.Second)
			say(w, "\r\n")
			time.Sleep(11 * time.Second)
		}, []string{"0s: data: 1\n", "25s: \r\n", "35s: " + comment}},
		{"not flushed yet", comment, func(w http.ResponseWriter) {
			stream(w)
			say(w, "")
			io.WriteString(w, "data: 1\n\n")
			time.Sleep(25 * time.Second)
			say(w, "")
		}, []string{"0s: ", "25s: data: 1\n\n"}},
		{"never flushed", comment, func(w http.ResponseWriter) { stream(w); time.Sleep(time.Minute) }, nil},
		{"no event stream", comment, func(w http.ResponseWriter) { say(w, ""); time.Sleep(time.Minute) }, []string{"0s: "}},
		{"of a known length", comment, func(w http.ResponseWriter) {
			stream(w)
			w.Header().Set("Content-Length", "100")
			say(w, "")
			time.Sleep(time.Minute)
		}, []string{"0s: "}},
		{"compressed", comment, func(w http.ResponseWriter) {
			stream(w)
			w.Header().Set("Content-Encoding", "gzip")
			say(w, "")
			time.Sleep(time.Minute)
		}, []string{"0s: "}},
		{"a long poll", " ", func(w http.ResponseWriter) {
			say(w, "")
			time.Sleep(15 * time.Second)
			say(w, "{}")
		}, []string{"0s: ", "10s:  ", "15s: {}"}},
		{"lines", "\n", func(w http.ResponseWriter) {
			say(w, "{}\n")
			time.Sleep(15 * time.Second)
			say(w, "{")
			time.Sleep(15 * time.Second)
			say(w, "}\n")
		}, []string{"0s: {}\n", "10s: \n", "15s: {", "30s: }\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHeard()
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { test.h(w) })
				KeepStream(h, Comments{Interval: 10 * time.Second, Text: test.comment}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				time.Sleep(time.Minute)
				if !slices.Equal(w.flushed, test.want) {
					t.Errorf("got %q, want %q", w.flushed, test.want)
				}
			})
		})
	}
}

// TestKeepStreamEnds checks that nothing is written once the handler has returned or has
// panicked, the context is done, or a write has failed.
func TestKeepStreamEnds(t *testing.T) {
	for name, h := range map[string]func(w *heard, cancel func()){
		"returned":  func(*heard, func()) {},
		"panics":    func(*heard, func()) { panic(http.ErrAbortHandler) },
		"cancelled": func(_ *heard, cancel func()) { cancel(); time.Sleep(time.Minute) },
		"failed": func(w *heard, _ func()) {
			w.fails.Store(true)
			time.Sleep(11 * time.Second)
			w.fails.Store(false)
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare := newHeard()
				ctx, cancel := context.WithCancel(t.Context())
				func() {
					defer func() { recover() }()
					KeepStream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.(http.Flusher).Flush()
						h(bare, cancel)
					}), Comments{Interval: 10 * time.Second, Text: " "}).ServeHTTP(bare, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
				}()
				time.Sleep(time.Minute)
				if len(bare.flushed) != 1 {
					t.Errorf("flushed %q", bare.flushed)
				}
			})
		})
	}
}

// TestKeepStreamBusy has a handler write at the moments at which comments are due: neither
// falls into the other, and a handler does not return while a comment is being written.
func TestKeepStreamBusy(t *testing.T) {
	w := newHeard()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say(w, "")
		for range 100 {
			time.Sleep(ms)
			say(w, "x")
		}
	})
	KeepStream(h, Comments{Interval: ms, Text: " "}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	w.enter() // panics if a comment is being written
	if all := strings.Join(w.flushed, ""); strings.Count(all, "x") != 100 {
		t.Errorf("flushed %q", all)
	}
}

func TestKeepStreamMisuse(t *testing.T) {
	next := http.NotFoundHandler()
	for want, f := range map[string]func(){
		"idlehttp: KeepStream: the handler is nil":                                         func() { KeepStream(nil, Comments{Interval: time.Second, Text: " "}) },
		"idlehttp: KeepStream: Interval is 15ns; use at least 1ms, such as 15*time.Second": func() { KeepStream(next, Comments{Interval: 15, Text: " "}) },
		"idlehttp: KeepStream: Text is empty; use \": \\n\\n\" for server-sent events":     func() { KeepStream(next, Comments{Interval: time.Second}) },
		"idlehttp: KeepStream: BeginAs is \": \": mime: no media type; use a Content-Type, such as text/event-stream": func() {
			KeepStream(next, Comments{Interval: time.Second, Text: ":", BeginAs: ": "})
		},
		"idlehttp: KeepStream: BeginAs is \"text/plain\", but a Text that begins with a colon is for text/event-stream": func() {
			KeepStream(next, Comments{Interval: time.Second, Text: ":", BeginAs: "text/plain"})
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}

// TestKeepStreamBegins a response, if the handler has written nothing for the interval, and leaves one to the handler
// that has begun it.
func TestKeepStreamBegins(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nOuter: yes\r\n"
	for name, test := range map[string]struct {
		h          func(w http.ResponseWriter)
		head, body string
		aborted    bool
	}{
		"it thinks": {func(w http.ResponseWriter) {
			time.Sleep(25 * time.Second)
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Too", "late")
			w.WriteHeader(200)
			io.WriteString(w, "data: 1\n\n")
		}, head, ": \n\n: \n\ndata: 1\n\n", false},
		"it has set a header, and thinks": {func(w http.ResponseWriter) {
			w.Header().Set("Inner", "yes")
			time.Sleep(15 * time.Second)
		}, head, ": \n\n", false},
		"it says nothing": {func(w http.ResponseWriter) { time.Sleep(15 * time.Second) }, head, ": \n\n", false},
		"it speaks in time": {func(w http.ResponseWriter) {
			time.Sleep(9 * time.Second)
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Inner", "yes")
			w.(http.Flusher).Flush()
			time.Sleep(11 * time.Second)
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nInner: yes\r\nOuter: yes\r\n", ": \n\n", false},
		"it has written, and not flushed": {func(w http.ResponseWriter) {
			w.Header().Del("Outer")
			w.WriteHeader(http.StatusTeapot)
			time.Sleep(time.Minute)
		}, "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n", "", false},
		"no stream": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "no\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Minute)
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nOuter: yes\r\n", "no\n\n", false},
		"trailers": {func(w http.ResponseWriter) {
			time.Sleep(11 * time.Second)
			w.Header().Set(http.TrailerPrefix+"Cost", "5")
		}, head, ": \n\n[Cost: 5]", false},
		"it fails late": {func(w http.ResponseWriter) {
			time.Sleep(11 * time.Second)
			http.Error(w, "bad gateway", http.StatusBadGateway)
			if _, err := io.WriteString(w, "more"); err == nil || !strings.Contains(err.Error(), "so it can't be 502 any more") {
				t.Error(err)
			}
			if err := http.NewResponseController(w).Flush(); err == nil {
				t.Error("it can be flushed")
			}
			time.Sleep(time.Minute)
		}, head, ": \n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := KeepStream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { test.h(w) }),
					Comments{Interval: 10 * time.Second, Text: ": \n\n", BeginAs: "text/event-stream"})
				c := startHTTP1(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Outer", "yes")
					w.Header()["Date"] = nil
					h.ServeHTTP(w, r)
				}).Dial()
				c.Send(httpsuite.Get("/"))
				var head bytes.Buffer
				c.In = bufio.NewReader(io.TeeReader(c.Conn, &head))
				r := c.Response()
				body, err := io.ReadAll(r.Body)
				for name, values := range r.Trailer {
					body = fmt.Appendf(body, "[%s: %s]", name, values[0])
				}
				if !strings.HasPrefix(head.String(), test.head) || string(body) != test.body || (err != nil) != test.aborted {
					t.Errorf("got %q and %q, %v", &head, body, err)
				}
				c.Close()
			})
		})
	}
}

// TestKeepStreamBeginsInHTTP2: a response that fails late is reset.
func TestKeepStreamBeginsInHTTP2(t *testing.T) {
	for status, want := range map[int]string{200: "  done", 502: "  "} {
		h := KeepStream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(25 * time.Second)
			w.WriteHeader(status)
			io.WriteString(w, "done")
		}), Comments{Interval: 10 * time.Second, Text: " ", BeginAs: "application/json"})
		synctest.Test(t, func(t *testing.T) {
			s := startInMemory(t, false, all(patience), h.ServeHTTP)
			r, err := (&http.Client{Transport: s.transport(true)}).Get("http://a/")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || string(body) != want || (err == nil) != (status == 200) {
				t.Errorf("%s with %v, %q, %v", r.Status, r.Header, body, err)
			}
		})
	}
}

// TestKeepStreamBeginsBeforeTheBody of the request has arrived: the handler gets all of it.
func TestKeepStreamBeginsBeforeTheBody(t *testing.T) {
	h := KeepStream(http.HandlerFunc(echo), Comments{Interval: 10 * time.Second, Text: " ", BeginAs: "text/plain"})
	inMemory(t, Timeouts{BodyRate: idle.Rate{BytesPerSecond: Off}}, h.ServeHTTP, func(t *testing.T, s *site, c *httpsuite.Client) {
		c.Send(httpsuite.Post(9) + "one")
		for _, part := range []string{"two", "six"} {
			time.Sleep(11 * time.Second)
			c.Send(part)
		}
		if body, err := io.ReadAll(c.Response().Body); string(body) != "  onetwosix" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

// TestKeepStreamBeginsBesideTheHandler has a handler write its header while the response begins without it.
func TestKeepStreamBeginsBesideTheHandler(t *testing.T) {
	w := newHeard()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for end := time.Now().Add(20 * ms); time.Now().Before(end); {
			w.Header().Set("A", "b")
		}
	})
	KeepStream(h, Comments{Interval: ms, Text: " ", BeginAs: "text/plain"}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if len(w.flushed) == 0 {
		t.Error("nothing is flushed")
	}
}
