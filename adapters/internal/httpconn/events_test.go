package httpconn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// What the events of FuzzEvents are called there.
const (
	evArrive   = iota // bytes arrive, and are not read yet
	evRead            // a Read, which waits if nothing has arrived
	evHeader          // HeaderRead
	evSignal          // the deadline by which fasthttp tells of a header
	evDeadline        // a deadline for reading of the server's
	evNone            // its end
	evIdle            // Idle
	evHand            // the connection is handed over
	evWrite           // a part of a response
	evContinue        // 100 Continue
	evShaken          // HandshakeDone
	evBegun           // RequestBegun
	evBlank           // a blank line arrives, and is not read yet
	evProbe           // a Read with a deadline so short that nothing arrives before it
	numEvents
)

// model is a Conn as it should be: dumb, and slow to change its mind.
type model struct {
	deadlines bool // the server tells by deadlines of headers that it has read: fasthttp
	first     bool // no request has ended yet
	begun     bool // a byte of the next request has been read
	blank     bool // a part of a blank line before it has been read, or may have been
	last      byte // the last byte that was read
	state     int  // awaitingHeader, readingBody, handling or hijacked
	responded bool
	lifted    bool   // the server has lifted its deadline, and has read nothing since
	buffered  bool   // the next request was told of as begun, so responses may be held back
	input     string // bytes that have arrived
}

// due is the phase that a Read waits in, none if no limit counts.
func (m *model) due() (Phase, bool) {
	switch {
	case m.state == hijacked:
		return Hijacked, true
	case m.state == handling:
		return 0, false
	case m.state == readingBody:
		return Request, true
	case m.begun:
		return Header, true
	case m.first:
		return Handshake, true
	}
	return KeepAlive, true
}

// status is that of the answer to a timeout.
func (m *model) status() int {
	switch p, _ := m.due(); {
	case p == Header, p == Request && !m.responded:
		return 408
	}
	return 0
}

// setting is what ends a wait in the phase.
func (p Phase) setting() string {
	return [numPhases]string{Handshake: "HandshakeTimeout", Header: "HeaderTimeout", Request: "BodyTimeout", KeepAlive: "KeepAliveTimeout", Hijacked: "IdleTimeout"}[p]
}

// deadline is told of a deadline for reading. net/http lifts its own twice, with no Read in
// between, if the next request came in the same read.
func (p *play) deadline(none bool) {
	m := &p.m
	switch {
	case m.state == readingBody:
		m.state, m.responded = handling, false
	case !m.deadlines && m.state == awaitingHeader && !m.begun && !m.blank:
		if none && m.lifted && !m.first {
			m.begun, p.again = true, false
		}
		m.lifted = none
	case !none && m.deadlines && (m.first || m.begun || m.buffered): // otherwise the server only looks whether a request comes
		m.header()
	}
}

// header is told that a header was read.
func (m *model) header() {
	if m.state == awaitingHeader {
		m.state, m.responded = readingBody, m.buffered
	}
}

// a call of OnTimeout, and what could be answered then.
type call struct {
	err    idle.TimeoutError
	at     time.Time
	status int
}

// A play goes through events, with a Conn and its model.
type play struct {
	t     *testing.T
	c     *Conn
	w     *wire
	m     model
	calls chan call
	last  Phase // of the wait before, as its limit may be used up in part
	again bool

	probed time.Duration // how long probes have waited since the last byte
}

// waits has a Read wait for long, and checks what counts meanwhile.
func (p *play) waits() {
	t := p.t
	due, limited := p.m.due()
	done := make(chan int, 1)
	go func() {
		n, err := p.c.Read(make([]byte, 8))
		if err != nil {
			t.Errorf("Read: %v", err)
		}
		done <- n
	}()
	synctest.Wait()
	begun := time.Now()
	time.Sleep(40 * time.Second)
	synctest.Wait()
	switch {
	case !limited && len(p.calls) > 0:
		t.Errorf("%+v, but nothing is awaited (%+v)", <-p.calls, p.m)
	case limited && len(p.calls) == 0:
		t.Errorf("no timeout of the %v (%+v)", due, p.m)
	case limited:
		policy := p.c.listener.phases[due].Policy()
		limit, total := max(policy.ReadTimeout, policy.IdleTimeout), due == Header || due == Handshake
		if total {
			limit = policy.PhaseTimeout
		}
		got := <-p.calls
		took, partly := got.at.Sub(begun), p.again && p.last == due && total
		if got.err.Phase != due.String() || got.err.Setting != due.setting() || got.err.Limit != limit || got.status != p.m.status() {
			t.Errorf("timed out by %+v with status %d, want %v of %v with %d (%+v)", got.err, got.status, due, limit, p.m.status(), p.m)
		}
		if took > limit+2*p.c.listener.options.Tick || took < limit-p.probed && !partly {
			t.Errorf("timed out after %v, the limit is %v (%+v)", took, limit, p.m)
		}
	}
	for len(p.calls) > 0 {
		<-p.calls
	}
	p.last, p.again = due, limited
	p.w.sends("x")
	if n := <-done; n != 1 {
		t.Errorf("read %d bytes", n)
	}
	p.read("x")
}

// read is told that the server has read b.
func (p *play) read(b string) {
	if due, _ := p.m.due(); due != Header && due != Handshake { // these have totals, which no byte extends
		p.probed = 0
	}
	before := p.m.last
	p.m.last = b[len(b)-1]
	if p.m.state != awaitingHeader {
		return
	}
	if !p.m.begun {
		p.m.lifted = false
		goesOn := before == '\r' && b == "\n"
		p.m.blank = strings.Trim(b, "\r\n") == "" && (!p.m.blank || goesOn) // a second one is the beginning of something
		p.m.begun = !p.m.blank
	}
	p.m.buffered = p.m.buffered && !p.m.begun // the server has flushed before it read
}

// arrives has the peer send b.
func (p *play) arrives(b string) {
	p.w.sends(b)
	p.m.input += b
}

// probe looks whether something arrives soon, as net/http of Go 1.28 does between two
// requests.
func (p *play) probe() {
	const short = 50 * time.Millisecond
	p.c.SetReadDeadline(time.Now().Add(short))
	p.deadline(false)
	if p.m.input == "" {
		var ne net.Error
		if n, err := p.c.Read(make([]byte, 1)); n != 0 || !errors.As(err, &ne) || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			p.t.Errorf("a probe got %d bytes and %v", n, err)
		}
		p.probed += short
		for len(p.calls) > 0 { // what was awaited for long already
			<-p.calls
		}
	}
	p.c.SetReadDeadline(time.Time{})
	p.deadline(true)
}

// event plays one.
func (p *play) event(e, arg int) {
	c, m := p.c, &p.m
	switch e {
	case evArrive:
		p.arrives("yyyyy"[:1+arg%5])
	case evBlank:
		p.arrives("\r\n\r\n"[:1+arg%4])
	case evRead:
		if m.input == "" {
			p.waits()
			return
		}
		n, err := c.Read(make([]byte, 1+arg%3))
		if n == 0 || err != nil {
			p.t.Errorf("Read: %d, %v", n, err)
		}
		b := m.input[:n]
		m.input = m.input[n:]
		if due, limited := m.due(); !limited || !p.again || due != p.last {
			p.again = false
		}
		p.read(b)
	case evProbe:
		p.probe()
	case evHeader:
		c.HeaderRead()
		m.header()
	case evSignal:
		c.SetReadDeadline(time.Now().Add(HeaderReadSignal))
		if m.deadlines {
			m.header()
		} else {
			p.deadline(false)
		}
	case evDeadline, evNone:
		var at time.Time
		if e == evDeadline {
			at = time.Now().Add(24 * time.Hour)
		}
		c.SetReadDeadline(at)
		p.deadline(e == evNone)
	case evIdle:
		c.Idle()
		if m.state == hijacked {
			break
		}
		m.state, m.first, m.begun, m.blank, m.responded, m.buffered, m.lifted = awaitingHeader, false, false, false, false, false, false
	case evHand:
		c.Hijack()
		m.state = hijacked
	case evWrite, evContinue:
		text := "HTTP/1.1 200 OK\r\n"
		if e == evContinue {
			text = "HTTP/1.1 100 Continue\r\n\r\n"
		}
		if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
			p.t.Errorf("Write: %d, %v", n, err)
		}
		m.responded = m.responded || e == evWrite && m.state == readingBody
	case evShaken:
		c.HandshakeDone() // there was no handshake
	case evBegun:
		c.RequestBegun()
		if m.state == awaitingHeader && !m.first && !m.begun && !m.blank {
			m.blank = m.last == '\n'
			m.begun, m.buffered, p.again = !m.blank, true, false
		}
	}
}

// run plays all events in a bubble of virtual time. At the end the connection is
// closed, or times out if it can.
func run(t *testing.T, events []byte, handler, timesOut bool, server HTTP2) {
	limits := distinct()
	if handler {
		limits.HandlerTimeout = 24 * time.Hour
	}
	p := &play{t: t, m: model{deadlines: server == NoHTTP2, first: true}, calls: make(chan call, 1000)}
	var ends atomic.Bool
	limits.OnTimeout = func(nc net.Conn, err *idle.TimeoutError) bool {
		p.calls <- call{*err, time.Now(), statusOf(nc.(*Conn).state.Load(), err)}
		return !ends.Load()
	}
	inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		p.c, p.w, l.http2 = c, w, server
		for _, e := range events {
			p.event(int(e)%int(numEvents), int(e)/int(numEvents))
		}
		due, limited := p.m.due()
		if !timesOut || !limited || p.m.input != "" {
			return
		}
		ends.Store(true)
		written := len(w.written)
		_, err := c.Read(make([]byte, 8))
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Phase != due.String() || timeout.Setting != due.setting() {
			t.Errorf("%v, want the timeout of the %v", err, due)
		}
		synctest.Wait()
		answer, want := string(w.written[written:]), ""
		if status := p.m.status(); status != 0 {
			want = fmt.Sprintf("HTTP/1.1 %d ", status)
		}
		if !strings.HasPrefix(answer, want) || want == "" && answer != "" {
			t.Errorf("answered %q, want %q (%+v)", answer, want, p.m)
		}
		c.Close()
		c.Close()
		for phase, n := range l.Stats().Phases {
			if (n == 1) != (phase == due.String()) || n > 1 {
				t.Errorf("%d timeouts of the %s, want one of the %v", n, phase, due)
			}
		}
		for setting, n := range l.Stats().Limits {
			if (n == 1) != (setting == due.setting()) || n > 1 {
				t.Errorf("%d timeouts by %s, want one by %s", n, setting, due.setting())
			}
		}
	})
}

// FuzzEvents plays arbitrary events. There is no order in which they could make
// a Conn panic, count wrongly, or wait in another phase than the model.
func FuzzEvents(f *testing.F) {
	const n = byte(numEvents)
	for _, events := range [][]byte{
		{evRead},
		{evArrive, evRead, evRead, evIdle, evRead},
		{evArrive, evRead, evWrite, evIdle, evRead, evRead},
		{evArrive + 4*n, evRead + 2*n, evSignal, evRead, evRead, evWrite, evRead, evIdle, evRead},
		{evArrive + 4*n, evRead, evHeader, evContinue, evRead, evRead, evRead, evRead, evRead, evWrite, evIdle, evRead},
		{evRead, evDeadline, evRead, evDeadline, evRead, evNone, evRead, evIdle, evRead},
		{evRead, evHand, evRead, evWrite, evRead, evIdle, evRead, evRead},
		{evArrive, evRead, evIdle, evHeader, evRead, evIdle, evRead},
		{evArrive, evRead, evIdle, evBegun, evRead, evHeader, evRead, evIdle, evBegun, evHeader, evRead},
		{evArrive, evRead, evRead, evIdle, evBegun, evRead},
		{evNone, evRead, evArrive, evRead, evNone, evRead},
		{evArrive, evRead, evIdle, evRead, evIdle, evProbe, evRead, evRead},
		{evArrive, evRead, evIdle, evProbe, evRead, evRead, evRead},
		{evArrive, evRead, evIdle, evProbe, evProbe, evArrive, evRead, evHeader, evProbe, evRead, evIdle, evProbe, evRead},
		{evProbe, evRead, evArrive, evRead, evProbe, evRead, evIdle, evRead},
		{evArrive, evRead, evIdle, evBlank + n, evRead + 2*n, evRead, evRead},
		{evArrive, evRead, evIdle, evBlank + n, evRead, evBegun, evRead, evRead, evArrive, evRead, evRead},
		{evArrive, evBlank + n, evRead + 2*n, evIdle, evBegun, evRead, evRead, evHeader, evRead},
		{evArrive, evBlank + n, evRead + 2*n, evIdle, evBegun, evSignal, evRead},
		{evArrive, evRead, evIdle, evBlank + n, evRead, evBegun, evRead, evRead, evBlank + n, evRead, evRead},
		{evBlank, evRead, evRead, evRead, evIdle, evBlank, evRead, evHeader, evRead},
		{evHand, evIdle, evHeader, evDeadline, evRead},
		{evDeadline, evHand, evBegun, evRead},
		{evBegun, evRead},
	} {
		for _, handler := range []bool{false, true} {
			f.Add(events, handler, len(events)%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, events []byte, handler, timesOut bool) {
		for _, server := range []HTTP2{NoHTTP2, OverTLS} {
			run(t, events[:min(len(events), 60)], handler, timesOut, server)
		}
	})
}

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
		_, err := c.Read(make([]byte, 1))
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Phase != "request header" {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// TestReadFromIsAResponse, as a Write is.
func TestReadFromIsAResponse(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		w.sends("P")
		c.Read(make([]byte, 1))
		c.HeaderRead()
		if n, err := c.ReadFrom(strings.NewReader("a response")); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		c.Read(make([]byte, 1))
		if got := string(w.written); got != "a response" {
			t.Errorf("written: %q", got)
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
		c.SetReadDeadline(time.Time{}) // about to read ahead
		c.Hijack()
		time.AfterFunc(time.Hour, func() { w.sends("x") })
		_, err := c.Read(make([]byte, 1))
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Phase != "hijacked" || timeout.Reason != idle.ReasonRead {
			t.Errorf("%v", err)
		}
	})
}

// TestPrefaceOfALaterRequest is none.
func TestPrefaceOfALaterRequest(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		l.http2 = OverAny
		for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", preface} {
			w.sends(text)
			if n, err := c.Read(make([]byte, 100)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			c.HeaderRead()
			if c.state.Load() == http2 {
				t.Errorf("%q makes it HTTP/2", text)
			}
			c.Idle()
		}
	})
}

// TestPrefaceHasABlankLine, which does not undo the beginning.
func TestPrefaceHasABlankLine(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		l.http2 = OverAny
		for _, text := range []string{preface[:16], preface[16:18]} {
			w.sends(text)
			c.Read(make([]byte, 100))
		}
		timesOut(t, c, Header, distinct().HeaderTimeout)
	})
}

// TestEachPipelinedHeaderHasItsTime: one that began with the request before it,
// of which the header had to be waited for itself, is not charged for that.
func TestEachPipelinedHeaderHasItsTime(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		read := func(n int) {
			if n, err := c.Read(make([]byte, n)); n == 0 || err != nil {
				t.Fatal(n, err)
			}
		}
		w.sends("G")
		read(1)
		time.AfterFunc(1500*time.Millisecond, func() { w.sends("ET / and a G") })
		read(100) // it had 2 s
		c.Idle()
		c.RequestBegun()
		begun := time.Now()
		_, err := c.Read(make([]byte, 1))
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Phase != "request header" {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took < 2*time.Second {
			t.Errorf("after %v", took)
		}
	})
}
