package idlehttp

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A journal is a writer that can be looked at.
type journal struct {
	sync.Mutex
	bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.Lock()
	defer j.Unlock()
	return j.Buffer.Write(b)
}

func (j *journal) text() string {
	j.Lock()
	defer j.Unlock()
	return j.String()
}

// silent returns a log that fails the test if anything is written to it.
func silent(t testing.TB) *log.Logger { return log.New(failWriter{t}, "", 0) }

// listen returns a listener on a port of the system's choice.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// wantNoListener checks that ln is closed.
func wantNoListener(t testing.TB, ln net.Listener) {
	t.Helper()
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is still open: %v", err)
	}
}

// What is not about our timeouts reaches the server's log as before, with its
// prefix, once.
func TestLogOfOthers(t *testing.T) {
	t.Parallel()
	var j journal
	limits := off()
	limits.HandshakeTimeout = 300 * ms
	var others gate
	limits.OnTimeout = others.keep
	s := start(t, true, limits, func(http.ResponseWriter, *http.Request) { panic("on purpose") },
		func(server *http.Server) { server.ErrorLog = log.New(&j, "mine: ", 0) })

	c := s.dial()
	c.send(get("/"))
	c.wantClosed()
	plain := s.dialBare()
	plain.send(get("/"))
	plain.want(http.StatusBadRequest)
	quit := s.dialBare()
	quit.send("\x16\x03\x01")
	quit.Close()
	for _, want := range []string{
		"mine: http: panic serving " + c.LocalAddr().String() + ": on purpose\n",
		"mine: http: TLS handshake error from " + plain.LocalAddr().String() + ": client sent an HTTP request to an HTTPS server\n",
		"mine: http: TLS handshake error from " + quit.LocalAddr().String() + ": ",
	} {
		eventually(t, "logged: "+want, func() bool { return strings.Contains(j.text(), want) })
	}
	others.open()
	s.dialBare().wantClosed() // this one is not told of
	eventually(t, "counted", func() bool { return s.Stats().Phases["handshake"] == 1 })
	if text := j.text(); strings.Count(text, "mine: ") != 3 || strings.Contains(text, "\n\n") || strings.Contains(text, "timeout") {
		t.Errorf("logged:\n%s", text)
	}
}

// A server without a log of its own has the standard one.
func TestStandardLog(t *testing.T) { // not parallel: there is one standard log
	var j journal
	log.SetOutput(&j)
	defer log.SetOutput(os.Stderr)
	limits := off()
	limits.HandshakeTimeout = 200 * ms
	var silent gate
	silent.open()
	limits.OnTimeout = silent.keep
	s := start(t, true, limits, echo, func(server *http.Server) { server.ErrorLog = nil })
	s.dialBare().wantClosed()
	silent.shut()
	c := s.dialBare()
	c.send(get("/"))
	c.want(http.StatusBadRequest)
	eventually(t, "logged", func() bool { return strings.Contains(j.text(), "client sent an HTTP request") })
	if text := j.text(); strings.Contains(text, "timeout") || strings.Count(text, "\n") != 1 {
		t.Errorf("logged:\n%s", text)
	}
}

// Handshakes that somebody else's deadline has ended are no business of ours.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var j journal
	quiet := quiet(log.New(&j, "", 0))
	ours := &net.OpError{Op: "read", Net: "tcp", Err: &idle.TimeoutError{Reason: idle.ReasonReadTotal, Phase: "handshake", Limit: time.Second, Elapsed: time.Second}}
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", ours)
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", os.ErrDeadlineExceeded)
	quiet.Print("something about i/o timeout: handshake: and so on")
	if want := "http: TLS handshake error from 1.2.3.4:5: i/o timeout\nsomething about i/o timeout: handshake: and so on\n"; j.text() != want {
		t.Errorf("logged:\n%swant:\n%s", j.text(), want)
	}
}

// No phase's end is noisy. (The log of every site in these tests fails them.)
func TestEveryPhaseEndsSilently(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := all(500 * ms)
		limits.HandlerTimeout = 400 * ms
		limits.Hijacked = idle.Policy{IdleTimeout: 200 * ms}
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/hijack":
				echoLines(hijack(t, w))
			case "/long":
				<-r.Context().Done()
				io.WriteString(w, "too late")
			case "/large":
				w.Write(make([]byte, large))
			default:
				io.Copy(w, r.Body)
			}
		})
		for _, text := range []string{"", "GET", get("/"), post("10"), get("/long"), get("/large"), upgrade} {
			c := s.dial()
			if text == get("/large") {
				c.narrow()
			}
			c.send(text)
			if text != get("/large") { // of which there is a lot to drain
				defer c.drain()
			}
		}
		eventually(t, "all are cut", func() bool { return s.Stats().Live == 0 })
	})
}
