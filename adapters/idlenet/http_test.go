package idlenet

import (
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// serveHTTP runs a net/http server on a wrapped listener and returns its
// address.
func serveHTTP(t *testing.T, tracker *idle.Tracker, handler http.HandlerFunc) string {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(failWriter{t}, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(share(t, bare, tracker, nil))
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return bare.Addr().String()
}

// failWriter takes a line in the server's log for a failure: timeouts are to be
// silent there.
type failWriter struct{ t *testing.T }

func (w failWriter) Write(b []byte) (int, error) {
	w.t.Errorf("net/http logs: %s", b)
	return len(b), nil
}

func echoBody(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

func TestHTTPExpectContinue(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	address := serveHTTP(t, tracker, echoBody)
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	want := strings.Repeat("x", 1<<20)
	request, _ := http.NewRequest("POST", "http://"+address, strings.NewReader(want))
	request.Header.Set("Expect", "100-continue")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); string(got) != want || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestHTTPHijackGivesTheWrappedConnection(t *testing.T) {
	t.Parallel()
	hijacked := make(chan error, 1)
	tracker := newTracker(t, idle.Policy{IdleTimeout: 300 * time.Millisecond})
	address := serveHTTP(t, tracker, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			hijacked <- err
			return
		}
		if _, ok := conn.(*Conn); !ok {
			t.Errorf("got a %T", conn)
		}
		go func() { // echo
			defer conn.Close()
			_, err := io.Copy(conn, rw)
			hijacked <- err
		}()
	})
	inTime := intime.Of(t, 100*time.Millisecond)
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	io.WriteString(client, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(client, got); err != nil || string(got) != "hello" {
		inTime.Fatalf("got %q, %v", got, err)
	}
	wantTimeout(t, <-hijacked, idle.ReasonIdle)
}

// A server that sends a file does so by ReadFrom, and a slow client of it lives.
func TestHTTPServesFiles(t *testing.T) {
	t.Parallel()
	file := randomFile(t, 5<<20)
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute, WriteTimeout: time.Minute})
	address := serveHTTP(t, tracker, func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, file.Name())
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	request, _ := http.NewRequest("GET", "http://"+address, nil)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); string(got) != string(random(5<<20)) || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}
