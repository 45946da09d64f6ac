package httpconn

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestPrefaceInCuts: HTTP/2 is known by how it begins, in whatever pieces that
// comes, if the server speaks it; anything else is HTTP/1.
func TestPrefaceInCuts(t *testing.T) {
	for _, text := range []string{preface, preface + "and more", preface[:18], preface[:23], preface[:18] + "XX\r\n\r\n",
		"PRI * HTTP/1.1\r\n\r\n", "PRX * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PX" + preface[1:], "x" + preface, "GET / HTTP/2.0\r\n\r\n", "P"} {
		for _, speaks := range []bool{true, false} {
			for cut := 1; cut <= len(text); cut++ {
				for size := 1; size <= 3; size++ {
					inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
						if speaks {
							l.http2 = OverAny
						}
						w.sends(text)
						if n, _ := c.Read(make([]byte, cut)); n != cut {
							t.Fatal(n)
						}
						for read := cut; read < len(text); {
							n, err := c.Read(make([]byte, size))
							if err != nil {
								t.Fatal(err)
							}
							read += n
						}
						c.HeaderRead()
						if c.state.Load() == request { // a later one is none
							c.Idle()
							w.sends(preface)
							c.Read(make([]byte, 100))
							c.HeaderRead()
						}
						if got, want := c.state.Load() == http2Idle, speaks && strings.HasPrefix(text, preface); got != want {
							t.Errorf("%q cut at %d, then each %d: it is HTTP/2: %v", text, cut, size, got)
						}
					})
				}
			}
		}
	}
}

// TestAnswerThatIsNotTaken does not hold the connection for long.
func TestAnswerThatIsNotTaken(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		w.full = true
		w.sends("G")
		c.Read(make([]byte, 1))
		begun := time.Now()
		if _, err := c.Read(make([]byte, 1)); timeoutOf(err).Phase != "request header" || time.Since(begun) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// TestHijackedReadsAreNeeded: those before may have been ahead of need, by a server
// that reads in the background.
func TestHijackedReadsAreNeeded(t *testing.T) {
	limits := distinct()
	limits.Hijacked = idle.Policy{ReadTimeout: time.Minute}
	inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		w.sends("G")
		c.Read(make([]byte, 1))
		c.HeaderRead()
		c.Hijack()
		time.AfterFunc(time.Hour, func() { w.sends("x") })
		if _, err := c.Read(make([]byte, 1)); timeoutOf(err).Phase != "hijacked" || timeoutOf(err).Reason != idle.ReasonRead {
			t.Errorf("%v", err)
		}
	})
}

// TestStates is the table of what each event does in each state of a connection.
func TestStates(t *testing.T) {
	names := map[uint32]string{waiting: "waiting", request: "request", http2: "http2", http2Idle: "http2Idle", hijacked: "hijacked", unserved: "unserved"}
	columns := []uint32{waiting, request, http2, http2Idle, hijacked, unserved}
	for _, event := range []struct {
		name string
		send func(*Conn)
		next [6]uint32 // by column
	}{
		{"Accepted", func(c *Conn) { c.Accepted(c) }, [6]uint32{waiting, request, http2, http2Idle, hijacked, waiting}},
		{"HeaderRead", (*Conn).HeaderRead, [6]uint32{request, request, http2, http2, hijacked, unserved}},
		{"Idle", (*Conn).Idle, [6]uint32{waiting, waiting, http2Idle, http2Idle, hijacked, unserved}},
		{"Hijack", (*Conn).Hijack, [6]uint32{hijacked, hijacked, hijacked, hijacked, hijacked, unserved}},
		{"SetDeadline", func(c *Conn) { c.SetDeadline(time.Now().Add(time.Hour)) }, [6]uint32{waiting, request, http2, http2Idle, hijacked, unserved}},
		{"WillHijack, SetDeadline", func(c *Conn) { c.WillHijack(); c.SetDeadline(time.Time{}) }, [6]uint32{hijacked, hijacked, hijacked, hijacked, hijacked | handsOver, unserved | handsOver}},
		{"Write", func(c *Conn) { c.Write([]byte("HTTP/1.1 200 OK\r\n")) }, [6]uint32{waiting, request, http2, http2Idle, hijacked, unserved | foreign}},
	} {
		for i, from := range columns {
			t.Run(event.name+" in "+names[from], func(t *testing.T) {
				limits := distinct()
				limits.Hijacked.IdleTimeout = time.Hour // so that a hijacked connection stays tracked
				inBubble(t, limits, func(t *testing.T, _ *Listener, c *Conn, _ *wire) {
					c.state.Store(from)
					if from == http2 || from == http2Idle {
						c.extra.Store(&extra{traffic: new(traffic)})
					}
					event.send(c)
					if got := c.state.Load(); got != event.next[i] {
						t.Errorf("the state is %q (%#x), want %q (%#x)", names[got&^flags], got, names[event.next[i]&^flags], event.next[i])
					}
				})
			})
		}
	}
}

// TestHeaderByDeadline: fasthttp tells of a header by a deadline, if some of a request has arrived. Other deadlines are the user's, however
// far they are.
func TestHeaderByDeadline(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, server := range []HTTP2{NoHTTP2, OverTLS} {
		for _, sent := range []string{"", "P"} {
			for _, in := range []time.Duration{0, time.Hour, 200 * year, HeaderReadSignal, 290 * year} {
				inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
					l.http2 = server
					if sent != "" {
						w.sends(sent)
						c.Read(make([]byte, 1))
					}
					var at time.Time
					if in != 0 {
						at = time.Now().Add(in)
					}
					tells := server == NoHTTP2 && sent != "" && in != 0
					want, set := uint32(waiting), at
					if tells {
						want = request
					}
					if tells && in >= HeaderReadSignal {
						set = time.Time{}
					}
					if c.SetReadDeadline(at); c.state.Load() != want || !w.deadline.Equal(set) {
						t.Errorf("%v, %q, in %v: the state is %#x and the deadline %v, want %#x and %v", server, sent, in, c.state.Load(), w.deadline, want, set)
					}
				})
			}
		}
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

// TestLimitLetsTheServerAnswer: when a limit of reading has passed, reads fail, and the server may write for a second. A client
// that doesn't take that can't hold the connection.
func TestLimitLetsTheServerAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		full bool
		took time.Duration
	}{
		"taken":     {false, 0},
		"not taken": {true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			limits := unlimited()
			limits.BodyTimeout = time.Second
			inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				readsBody(c, w)
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
				_, err := c.Write([]byte("an answer"))
				if took := time.Since(begun); took != test.took || (err != nil) != test.full {
					t.Errorf("the write took %v: %v", took, err)
				}
			})
		})
	}
}

// TestDrainOfANewConnection: it has time for its first request. Then it's ended like others. If it's closed before, nothing waits for it.
func TestDrainOfANewConnection(t *testing.T) {
	limits := unlimited()
	limits.HandshakeTimeout = time.Hour
	for _, asks := range []bool{true, false} {
		inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
			if _, err := l.tracker.Drain(idle.Drain{CloseDelay: time.Second}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if !asks {
				return
			}
			time.AfterFunc(time.Minute, func() { w.sends("GET") })
			if n, err := c.Read(make([]byte, 3)); n != 3 {
				t.Fatal("it had no time for a request: ", err)
			}
			c.HeaderRead()
			c.Idle()
			begun := time.Now()
			if _, err := c.Read(make([]byte, 1)); timeoutOf(err).Reason != idle.ReasonDrain || time.Since(begun) > 5*time.Second {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
		})
	}
}

// TestLate is told once, when HandlerTimeout of the request passes; at once, if that's before the server's goroutine gets to call Late.
func TestLate(t *testing.T) {
	limits := unlimited()
	limits.HandlerTimeout = time.Second
	inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		for range 2 {
			c.HeaderRead()
			c.Late()
			c.Idle()
		}
		c.HeaderRead()
		begun := time.Now()
		<-c.Late()
		if took := time.Since(begun); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("after %v", took)
		}
		<-c.Late()
	})
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
	for accepts, want := range map[bool]Phase{false: Handshake, true: Header} {
		synctest.Test(t, func(t *testing.T) {
			l, c, w := accept(t, distinct(), OverTLS)
			if accepts {
				c.Accepted(c)
			}
			w.sends("G")
			var err error
			for err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			if timeoutOf(err).Phase != want.String() || strings.HasPrefix(string(w.written), "HTTP/1.1 408 ") != accepts {
				t.Errorf("accepted: %v; %v, want a timeout of the %v; answered %q", accepts, err, want, w.written)
			}
			c.Close()
			l.Close()
		})
	}
}
