package httpconn

import (
	"testing"
	"time"
)

// TestStates is the table of what each event does in each state of a connection. For fasthttp,
// which tells of a header by a deadline, see TestStatesOfDeadlines.
func TestStates(t *testing.T) {
	names := map[uint32]string{awaitingHeader: "awaitingHeader", readingBody: "readingBody", handling: "handling", http2: "http2", http2Idle: "http2Idle", hijacked: "hijacked", unserved: "unserved"}
	columns := []uint32{awaitingHeader, readingBody, handling, http2, http2Idle, hijacked, unserved}
	for _, event := range []struct {
		name string
		send func(*Conn)
		next [7]uint32 // by column
	}{
		{"Accepted", func(c *Conn) { c.Accepted(c) }, [7]uint32{awaitingHeader, readingBody, handling, http2, http2Idle, hijacked, awaitingHeader}},
		{"HeaderRead", (*Conn).HeaderRead, [7]uint32{readingBody, readingBody, handling, http2, http2, hijacked, unserved}},
		{"a read deadline", func(c *Conn) { c.SetReadDeadline(time.Now().Add(time.Hour)) }, [7]uint32{awaitingHeader, handling, handling, http2, http2Idle, hijacked, unserved}},
		{"no read deadline", func(c *Conn) { c.SetReadDeadline(time.Time{}) }, [7]uint32{awaitingHeader, handling, handling, http2, http2Idle, hijacked, unserved}},
		{"Idle", (*Conn).Idle, [7]uint32{awaitingHeader, awaitingHeader, awaitingHeader, http2Idle, http2Idle, hijacked, unserved}},
		{"Hijack", (*Conn).Hijack, [7]uint32{hijacked, hijacked, hijacked, hijacked, hijacked, hijacked, unserved}},
		{"SetDeadline", func(c *Conn) { c.SetDeadline(time.Now().Add(time.Hour)) }, [7]uint32{awaitingHeader, handling, handling, http2, http2Idle, hijacked, unserved}},
		{"WillHijack, SetDeadline", func(c *Conn) { c.WillHijack(); c.SetDeadline(time.Time{}) }, [7]uint32{hijacked, hijacked, hijacked, hijacked, hijacked, hijacked | handsOver, unserved | handsOver}},
		{"Write", func(c *Conn) { c.Write([]byte("HTTP/1.1 200 OK\r\n")) }, [7]uint32{awaitingHeader, readingBody | responded, handling | responded, http2, http2Idle, hijacked, unserved | foreign}},
		{"103 Early Hints", func(c *Conn) { c.Write([]byte("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")) }, [7]uint32{awaitingHeader, readingBody, handling, http2, http2Idle, hijacked, unserved | foreign}},
		{"101 Switching Protocols", func(c *Conn) { c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n")) }, [7]uint32{awaitingHeader, readingBody | responded, handling | responded, http2, http2Idle, hijacked, unserved | foreign}},
		{"Interim, Write", func(c *Conn) { c.Interim(true); c.Write([]byte("record")); c.Interim(false) }, [7]uint32{awaitingHeader, readingBody, handling, http2, http2Idle, hijacked, unserved | foreign}},
		{"Interim, Idle", func(c *Conn) { c.Interim(true); c.Idle() }, [7]uint32{awaitingHeader, awaitingHeader, awaitingHeader, http2Idle, http2Idle | interim, hijacked | interim, unserved | interim}},
		{"100 Continue", func(c *Conn) { c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) }, [7]uint32{awaitingHeader, readingBody, handling, http2, http2Idle, hijacked, unserved | foreign}},
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

// TestStatesOfDeadlines: a deadline tells of fasthttp's header, but not between two requests,
// and none does not. In the body it lifts the limits.
func TestStatesOfDeadlines(t *testing.T) {
	for _, test := range []struct {
		name  string
		phase Phase
		begun uint8
		state uint32
		none  bool
		want  uint32
	}{
		{"first request", Handshake, notBegun, awaitingHeader, false, readingBody},
		{"between requests", KeepAlive, notBegun, awaitingHeader, false, awaitingHeader},
		{"blank line", KeepAlive, maybeBegun, awaitingHeader, false, awaitingHeader},
		{"header begun", Header, begunAlone, awaitingHeader, false, readingBody},
		{"header begun, none", Header, begunAlone, awaitingHeader, true, awaitingHeader},
		{"pipelined", Header, begunPipelined, awaitingHeader, false, readingBody | pipelined},
		{"body", Request, begunAlone, readingBody, false, handling},
		{"body, none", Request, begunAlone, readingBody, true, handling},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, _ *wire) {
				l.http2 = NoHTTP2
				c.phase, c.begun = test.phase, test.begun
				c.state.Store(test.state)
				at := time.Time{}
				if !test.none {
					at = time.Now().Add(time.Hour)
				}
				c.SetReadDeadline(at)
				if got := c.state.Load(); got != test.want {
					t.Errorf("the state is %#x, want %#x", got, test.want)
				}
			})
		})
	}
}
