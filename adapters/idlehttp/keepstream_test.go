package idlehttp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// heard is a ResponseWriter that records what is flushed, and when. It panics if two goroutines
// write at once.
type heard struct {
	httptest.ResponseRecorder
	begun    time.Time
	fails    error
	mu       sync.Mutex
	buffered string
	flushed  []string // "1s: text"
	busy     bool
}

func (h *heard) Write(b []byte) (int, error) {
	h.enter()
	defer h.leave()
	time.Sleep(ms) // a write of another goroutine would come in between
	if err := h.failure(); err != nil {
		return 0, err
	}
	h.buffered += string(b)
	return len(b), nil
}

func (h *heard) Flush() {
	h.enter()
	defer h.leave()
	at := time.Since(h.begun).Round(10 * ms).String()
	h.flushed, h.buffered = append(h.flushed, at+": "+h.buffered), ""
}

func (h *heard) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = err
}

func (h *heard) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fails
}

func (h *heard) enter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		panic("two goroutines write")
	}
	h.busy = true
}

func (h *heard) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
}

// TestKeepStreamWrites checks in virtual time when comments are written, and where.
func TestKeepStreamWrites(t *testing.T) {
	const comment = ": \n\n"
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream; charset=utf-8") }
	say := func(w http.ResponseWriter, text string) { io.WriteString(w, text); w.(http.Flusher).Flush() }
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
		{"by its controller", comment, func(w http.ResponseWriter) {
			stream(w)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			time.Sleep(15 * time.Second)
		}, []string{"0s: ", "10s: " + comment}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &heard{ResponseRecorder: *httptest.NewRecorder(), begun: time.Now()}
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { test.h(w) })
				KeepStream(h, 10*time.Second, test.comment).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
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
			w.fail(io.ErrClosedPipe)
			time.Sleep(11 * time.Second)
			w.fail(nil)
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare := &heard{ResponseRecorder: *httptest.NewRecorder(), begun: time.Now()}
				ctx, cancel := context.WithCancel(t.Context())
				func() {
					defer func() { recover() }()
					KeepStream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.(http.Flusher).Flush()
						h(bare, cancel)
					}), 10*time.Second, " ").ServeHTTP(bare, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
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
	w := &heard{ResponseRecorder: *httptest.NewRecorder(), begun: time.Now()}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		for range 100 {
			time.Sleep(ms)
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		}
	})
	KeepStream(h, ms, " ").ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	w.enter() // panics if a comment is being written
	if all := strings.Join(w.flushed, ""); strings.Count(all, "x") != 100 {
		t.Errorf("flushed %q", all)
	}
}

func TestKeepStreamMisuse(t *testing.T) {
	next := http.NotFoundHandler()
	for want, f := range map[string]func(){
		"idlehttp: KeepStream: the handler is nil":                                         func() { KeepStream(nil, time.Second, " ") },
		"idlehttp: KeepStream: interval is 15ns; use at least 1ms, such as 15*time.Second": func() { KeepStream(next, 15, " ") },
		"idlehttp: KeepStream: comment is empty; use \": \\n\\n\" for server-sent events":  func() { KeepStream(next, time.Second, "") },
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
