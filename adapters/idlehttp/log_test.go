package idlehttp

import (
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// What is not about our timeouts reaches the server's log as before, with its prefix, once.
func TestLogOfOthers(t *testing.T) {
	t.Parallel()
	var j httpsuite.Journal
	limits := httpsuite.Only(300*ms, "HandshakeTimeout")
	var others httpsuite.Gate
	limits.OnTimeout = others.Keep
	s := start(t, true, limits, func(http.ResponseWriter, *http.Request) { panic("on purpose") },
		func(server *http.Server) { server.ErrorLog = log.New(&j, "mine: ", 0) })

	c := s.Dial()
	c.Send(httpsuite.Get("/"))
	c.WantClosed()
	plain := s.DialBare()
	plain.Send(httpsuite.Get("/"))
	plain.Want(http.StatusBadRequest)
	quit := s.DialBare()
	quit.Send("\x16\x03\x01")
	quit.Close()
	for _, want := range []string{
		"mine: http: panic serving " + c.LocalAddr().String() + ": on purpose\n",
		"mine: http: TLS handshake error from " + plain.LocalAddr().String() + ": client sent an HTTP request to an HTTPS server\n",
		"mine: http: TLS handshake error from " + quit.LocalAddr().String() + ": ",
	} {
		httpsuite.Eventually(t, "logged: "+want, func() bool { return strings.Contains(j.Text(), want) })
	}
	others.Open()
	s.DialBare().WantClosed() // this one is not told of
	s.WantOnly(1, "handshake", idle.ReasonReadTotal)
	if text := j.Text(); strings.Count(text, "mine: ") != 3 || strings.Contains(text, "\n\n") || strings.Contains(text, "timeout") {
		t.Errorf("logged:\n%s", text)
	}
}

// A server without a log of its own has the standard one.
func TestStandardLog(t *testing.T) { // not parallel: there is one standard log
	var j httpsuite.Journal
	log.SetOutput(&j)
	defer log.SetOutput(os.Stderr)
	limits := httpsuite.Only(200*ms, "HandshakeTimeout")
	var silent httpsuite.Gate
	silent.Open()
	limits.OnTimeout = silent.Keep
	s := start(t, true, limits, echo, func(server *http.Server) { server.ErrorLog = nil })
	s.DialBare().WantClosed()
	silent.Shut()
	c := s.DialBare()
	c.Send(httpsuite.Get("/"))
	c.Want(http.StatusBadRequest)
	httpsuite.Eventually(t, "logged", func() bool { return strings.Contains(j.Text(), "client sent an HTTP request") })
	if text := j.Text(); strings.Contains(text, "timeout") || strings.Count(text, "\n") != 1 {
		t.Errorf("logged:\n%s", text)
	}
}

// Handshakes that somebody else's deadline has ended are no business of ours.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var j httpsuite.Journal
	quiet := quiet(log.New(&j, "", 0))
	ours := &net.OpError{Op: "read", Net: "tcp", Err: &idle.TimeoutError{Reason: idle.ReasonReadTotal, Phase: "handshake", Limit: time.Second, Elapsed: time.Second}}
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", ours)
	quiet.Printf("http2: server: error reading preface from client %s: %v", "1.2.3.4:5", ours)
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", os.ErrDeadlineExceeded)
	quiet.Print("something about i/o timeout: handshake: and so on")
	if want := "http: TLS handshake error from 1.2.3.4:5: i/o timeout\nsomething about i/o timeout: handshake: and so on\n"; j.Text() != want {
		t.Errorf("logged:\n%swant:\n%s", j.Text(), want)
	}
}
