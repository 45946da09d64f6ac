package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestHandlerInHandler has a handler that calls the server's own with another path, as a
// rewriting one does.
func TestHandlerInHandler(t *testing.T) {
	exchange := exchanger(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/inner" {
			io.WriteString(w, "inner")
			return
		}
		inner := r.Clone(r.Context())
		inner.URL.Path = "/inner"
		r.Context().Value(http.ServerContextKey).(*http.Server).Handler.ServeHTTP(w, inner)
	})
	for range 2 {
		if got := exchange(); !strings.HasSuffix(got, "\r\n\r\ninner") {
			t.Errorf("got %q", got)
		}
	}
}

// TestWriterAfterHandler is one that a handler has kept. Between two requests it writes
// nothing.
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

// TestReadFromTooLong: of a source that is longer than the Content-Length, the client gets what fits, as with net/http alone.
func TestReadFromTooLong(t *testing.T) {
	serve := func(ours bool) (n int64, body []byte) {
		ln, read := httpsuite.Listen(t), make(chan int64, 1)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "600")
			n, _ := w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("a", 1200)))
			read <- n
		})}
		if ours {
			l, err := Wrap(s, ln, Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			ln = l
		}
		go s.Serve(ln)
		defer s.Close()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err = io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return <-read, body
	}
	n, body := serve(true)
	bareN, bareBody := serve(false)
	if n != bareN || string(body) != string(bareBody) || len(body) != 600 {
		t.Errorf("ReadFrom returned %d, and the client got %d bytes; with net/http alone they are %d and %d", n, len(body), bareN, len(bareBody))
	}
}

// TestWriterHasAllMethods: a handler finds every method of net/http's own ResponseWriter on ours.
func TestWriterHasAllMethods(t *testing.T) {
	exchange := exchanger(t, true, func(w http.ResponseWriter, r *http.Request) {
		wantAllMethods(t, w, w.(*exchange).ResponseWriter)
	})
	exchange()
}

// wantAllMethods fails the test if own has an exported method that w doesn't have.
func wantAllMethods(t *testing.T, w, own http.ResponseWriter) {
	t.Helper()
	for m := range reflect.TypeOf(own).Methods() {
		if has, ok := reflect.TypeOf(w).MethodByName(m.Name); !ok || has.Type.NumIn() != m.Type.NumIn() || has.Type.NumOut() != m.Type.NumOut() {
			t.Errorf("net/http's %T has %s, ours has not", own, m.Name)
		}
	}
}
