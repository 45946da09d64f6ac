package httpconn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestHeaderIsNotEarly: a header that begins while the driver is late, here
// because a function of a Visit takes long, has all of its time nonetheless.
func TestHeaderIsNotEarly(t *testing.T) {
	for _, second := range []bool{false, true} {
		const limit = 500 * time.Millisecond
		limits := distinct()
		limits.HeaderTimeout, limits.Idle.Shards = limit, 1
		inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
			var begun time.Time
			go l.Tracker().Visit(t.Context(), func(idle.Info) {
				time.Sleep(25 * time.Millisecond)
				begun = time.Now()
				w.sends("G")
				time.Sleep(5 * time.Millisecond)
				if second {
					time.AfterFunc(limit/2, func() { w.sends("E") })
				}
			})
			var err error
			for err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			if took := time.Since(begun); took < limit {
				t.Errorf("a second byte: %v; %v after %v, the limit is %v", second, err, took, limit)
			}
		})
	}
}

// inHeader are the ways to come to a phase with a PhaseTimeout that ends with the header of a request, and to
// read that header. Each limit is at most 8 s.
var inHeader = map[string]func(c *Conn, w *wire){
	"handshake": func(c *Conn, w *wire) {
		w.sends("GET / HTTP/1.1\r\n\r\n")
		c.Read(make([]byte, 100))
	},
	"request header": func(c *Conn, w *wire) {
		w.sends("G")
		c.Read(make([]byte, 1))
		w.sends("ET / HTTP/1.1\r\n\r\n")
		c.Read(make([]byte, 100))
	},
	"pipelined": func(c *Conn, w *wire) {
		w.sends("GET / HTTP/1.1\r\n\r\nG")
		c.Read(make([]byte, 100))
		c.HeaderRead()
		c.Idle()
		c.RequestBegun()
		w.sends("ET / HTTP/1.1\r\n\r\n")
		c.Read(make([]byte, 100))
	},
}

// TestHandlerHasNoLimitOfTheHeader: what limits the arrival of a request ends with its header, even if nothing
// is read after that.
func TestHandlerHasNoLimitOfTheHeader(t *testing.T) {
	for name, read := range inHeader {
		t.Run(name, func(t *testing.T) {
			inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
				read(c, w)
				c.HeaderRead()
				time.Sleep(time.Hour)
				if err := c.Timeout(); err != nil {
					t.Errorf("the handler was cut by %v", err)
				}
				c.Idle()
				timesOut(t, c, KeepAlive, distinct().KeepAliveTimeout)
			})
		})
	}
}

// TestHeaderAtTheLastMoment: a limit on the arrival of a request passes when the server has been given the header, and
// hasn't reported that yet. That takes it no longer than a few ticks.
func TestHeaderAtTheLastMoment(t *testing.T) {
	const ms = time.Millisecond
	for name, begin := range map[string]func(c *Conn, w *wire) (limit time.Duration){
		"handshake": func(*Conn, *wire) time.Duration { return distinct().HandshakeTimeout },
		"request header": func(c *Conn, w *wire) time.Duration {
			w.sends("G")
			c.Read(make([]byte, 1))
			return distinct().HeaderTimeout
		},
	} {
		for parsing, cut := range map[time.Duration]bool{30 * ms: false, 200 * ms: true} {
			t.Run(fmt.Sprint(name, " ", parsing), func(t *testing.T) {
				inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
					limit := begin(c, w)
					time.AfterFunc(limit-10*ms, func() { w.sends("GET / HTTP/1.1\r\n\r\n") })
					if _, err := c.Read(make([]byte, 100)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(parsing)
					c.HeaderRead()
					time.Sleep(time.Minute)
					if err := c.Timeout(); (err != nil) != cut {
						t.Errorf("ended by %v", err)
					}
				})
			})
		}
	}
}

// TestNotAnsweredBeforeAccepted: what a server has not begun to serve, as it may
// be about to refuse it, has the limit of the handshake, and no answer.
func TestNotAnsweredBeforeAccepted(t *testing.T) {
	for _, accept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ls := wires{next: make(chan *wire, 1)}
			l, err := NewListener("httpconn", ls, distinct(), OverTLS)
			if err != nil {
				t.Fatal(err)
			}
			w := newWire()
			ls.next <- w
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			want, answer := Handshake, ""
			if accept {
				Find(l, c).Accepted(c)
				want, answer = Header, "HTTP/1.1 408 "
			}
			w.sends("G")
			for err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			var timeout *idle.TimeoutError
			if !errors.As(err, &timeout) || timeout.Phase != want.String() {
				t.Errorf("accepted: %v; %v, want a timeout of the %v", accept, err, want)
			}
			if got := string(w.written); !strings.HasPrefix(got, answer) || answer == "" && got != "" {
				t.Errorf("accepted: %v; answered %q", accept, got)
			}
			c.Close()
			l.Close()
		})
	}
}
