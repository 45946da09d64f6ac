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

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

const response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// handlerLimit sets HandlerTimeout only.
func handlerLimit() (t httplimits.Timeouts) {
	t = unlimited()
	t.HandlerTimeout = time.Second
	return t
}

// A moment calls a function once when a write deadline is set. An answer sets one just
// before it is written.
type moment struct {
	net.Conn
	call func()
}

func (m *moment) SetWriteDeadline(t time.Time) error {
	if call := m.call; call != nil && !t.IsZero() {
		m.call = nil
		call()
	}
	return m.Conn.SetWriteDeadline(t)
}

// TestResponseMeetsAnswer: a response that begins when the answer is about to be written
// fails, and so does one that begins after it. It fails when the answer is written, as the
// server closes the connection then.
func TestResponseMeetsAnswer(t *testing.T) {
	inBubble(t, handlerLimit(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		var errs []error
		done := make(chan struct{})
		w.onWriteDeadline = func() {
			go func() {
				defer close(done)
				_, write := c.Write([]byte(response))
				_, copied := c.ReadFrom(strings.NewReader(response))
				errs = append(errs, write, copied)
				c.Close()
			}()
			time.Sleep(time.Nanosecond)
		}
		c.HeaderRead()
		c.Read(make([]byte, 1))
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

// TestResponseMeetsAnswerInTLS: there the two are told apart by which is first.
func TestResponseMeetsAnswerInTLS(t *testing.T) {
	for name, want := range map[string]string{"before": "HTTP/1.1 200 ", "after": "HTTP/1.1 503 "} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			m := &moment{Conn: near}
			ls := pipes{next: make(chan net.Conn, 1)}
			ls.next <- m
			l, err := NewListener("httpconn", tls.NewListener(ls, httpsuite.ServerTLS()), handlerLimit(), NoHTTP2)
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
			var late error
			if name == "before" {
				m.call = func() { io.WriteString(secure, response) }
			}
			secure.Read(make([]byte, 1))
			if _, late = io.WriteString(secure, response); late == nil {
				t.Errorf("%s: a response after the answer succeeds", name)
			}
			secure.Close()
			if got := <-got; !strings.HasPrefix(got, want) || strings.Count(got, "HTTP/") != 1 {
				t.Errorf("%s: the client got %q", name, got)
			}
			l.Close()
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
