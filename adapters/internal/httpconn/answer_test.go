package httpconn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

const (
	response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	hints    = "HTTP/1.1 103 Early Hints\r\n\r\n"
)

// slowHandler is the timeout of a handler.
func slowHandler() *idle.TimeoutError {
	return &idle.TimeoutError{Reason: idle.ReasonPhase, Phase: Request.String(), Setting: "HandlerTimeout"}
}

// TestResponseMeetsAnswer: a response that begins when the answer is about to be written
// fails, and so does one that begins after it. It fails when the answer is written, as the
// server closes the connection then.
func TestResponseMeetsAnswer(t *testing.T) {
	inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		c.HeaderRead()
		status := c.claim(slowHandler())
		var errs []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, write := c.Write([]byte(response))
			_, copied := c.ReadFrom(strings.NewReader(response))
			errs = append(errs, write, copied)
			c.Close()
		}()
		synctest.Wait()
		c.answer(status)
		<-done
		_, late := c.Write([]byte(response))
		for _, err := range append(errs, late) {
			if timeout := new(idle.TimeoutError); !errors.As(err, &timeout) || timeout.Setting != "HandlerTimeout" {
				t.Errorf("a response beside the answer: %v", err)
			}
		}
		if got := string(w.written); !strings.HasPrefix(got, "HTTP/1.1 503 ") || strings.Count(got, "HTTP/") != 1 {
			t.Errorf("the client got %q", got)
		}
	})
}

// TestResponseMeetsAnswerInTLS: there the two are told apart by which is first. An interim response
// passes before the answer.
func TestResponseMeetsAnswerInTLS(t *testing.T) {
	for name, test := range map[string]struct{ first, want string }{
		"before":  {response, "HTTP/1.1 200 "},
		"after":   {"", "HTTP/1.1 503 "},
		"interim": {hints, hints + "HTTP/1.1 503 "},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			ls := pipes{next: make(chan net.Conn, 1)}
			ls.next <- near
			l, err := NewListener("httpconn", tls.NewListener(ls, httpsuite.ServerTLS()), unlimited(), NoHTTP2)
			if err != nil {
				t.Fatal(err)
			}
			secure, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c := Find(l, secure)
			c.Accepted(secure)
			got := make(chan string)
			go func() {
				_, config := httpsuite.Identity()
				client := tls.Client(far, config)
				io.WriteString(client, "G")
				b, _ := io.ReadAll(client)
				client.Close()
				got <- string(b)
			}()
			secure.Read(make([]byte, 1))
			c.HeaderRead()
			status := c.claim(slowHandler())
			if test.first == hints {
				c.Interim(true)
			}
			io.WriteString(secure, test.first)
			c.answer(status)
			if _, late := io.WriteString(secure, response); late == nil {
				t.Errorf("%s: a response after the answer succeeds", name)
			}
			secure.Close()
			if got := <-got; !strings.HasPrefix(got, test.want) || strings.Count(got, "HTTP/") != strings.Count(test.want, "HTTP/") {
				t.Errorf("%s: the client got %q", name, got)
			}
			l.Close()
		})
	}
}

// TestNoAnswerBelowForeignTLS: if a wrapper carries TLS, only it could write an answer. A plain one would be garbage to
// the client.
func TestNoAnswerBelowForeignTLS(t *testing.T) {
	type foreign struct{ *tls.Conn }
	for name, wrap := range map[string]func(*tls.Conn) net.Conn{
		"it shows its state": func(c *tls.Conn) net.Conn { return foreign{c} },
		"it does not":        func(c *tls.Conn) net.Conn { return wrapper{c} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nc, _ := accept(t, unlimited(), NoHTTP2, func(bare net.Listener) net.Listener { return tls.NewListener(bare, httpsuite.ServerTLS()) })
				c := Find(l, nc)
				c.Accepted(wrap(nc.(*tls.Conn)))
				c.HeaderRead()
				if status := c.claim(slowHandler()); status != 0 {
					t.Errorf("it's answered with %d", status)
				}
				c.Close()
				l.Close()
			})
		})
	}
}

// TestPipelinedTimeoutLetsTheServerWrite: the server may hold back responses to earlier requests. It
// may write them when reads fail, but a client that doesn't take them holds it for a second only.
// What it writes before shows that it holds back nothing.
func TestPipelinedTimeoutLetsTheServerWrite(t *testing.T) {
	for name, test := range map[string]struct {
		before string // written before the timeout
		full   bool
		want   string
		took   time.Duration
	}{
		"held back":     {"", false, response, 0},
		"not taken":     {"", true, "", time.Second},
		"already begun": {response, false, response, 0},
	} {
		t.Run(name, func(t *testing.T) {
			limits := unlimited()
			limits.BodyTimeout = time.Second
			inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				c.Idle()
				c.RequestBegun()
				c.HeaderRead()
				if test.before != "" {
					io.WriteString(c, test.before)
				}
				var timeout *idle.TimeoutError
				if _, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) {
					t.Error(err)
				}
				w.full = test.full
				begun := time.Now()
				c.Conn.SetReadDeadline(time.Time{}) // servers do that before they read again
				if _, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) || time.Since(begun) > 0 {
					t.Errorf("another read took %v: %v", time.Since(begun), err)
				}
				_, err := io.WriteString(c, response)
				if took := time.Since(begun); took != test.took {
					t.Errorf("the write took %v", took)
				}
				if fails := test.want == test.before; (err != nil) != fails || fails && !errors.As(err, &timeout) {
					t.Error(err)
				}
				if got := string(w.written); got != test.want {
					t.Errorf("the client got %q", got)
				}
			})
		})
	}
}

// TestDrainDoesNotAnswer: a drain that doesn't wait any longer ends a request without an answer.
// The handler may have the request, because fasthttp doesn't report when it has read the body.
func TestDrainDoesNotAnswer(t *testing.T) {
	for name, rest := range map[string]string{"in the body": "", "in the handler": "def"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
				w.sends("GET")
				c.Read(make([]byte, 3))
				c.HeaderRead()
				go io.ReadFull(c, make([]byte, 6))
				time.Sleep(time.Second)
				w.sends("abc" + rest)
				time.Sleep(time.Second)
				if _, err := l.tracker.Drain(idle.Drain{ForceAfter: time.Second}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if got := string(w.written); got != "" || l.Stats().Drained != 1 {
					t.Errorf("the client got %q; %d drained", got, l.Stats().Drained)
				}
			})
		})
	}
}

// pipes is a listener of any connections.
type pipes struct {
	net.Listener
	next chan net.Conn
}

func (l pipes) Accept() (net.Conn, error) { return <-l.next, nil }
func (pipes) Close() error                { return nil }
