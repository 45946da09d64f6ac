package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A verdict is how a client's life ended.
type verdict uint8

const (
	left     verdict = iota // by itself, as it was to
	closed                  // by the server, as it was to
	draw                    // by either, as the client was too late: nobody's fault
	violated                // as it must not
	stalled                 // as it must not, but this process stood still too long to tell whose fault it was
)

// An outcome is a verdict with what goes with it.
type outcome struct {
	verdict
	reason  idle.Reason   // as the server has it; 0 if it has not timed the connection out
	late    time.Duration // of those closed
	precise bool          // late is known to about a tick
	at      time.Time
	fault   string
	unsure  bool // the server may have timed it out, the client does not know
}

func violation(reason idle.Reason, format string, args ...any) outcome {
	return outcome{verdict: violated, reason: reason, fault: fmt.Sprintf(format, args...)}
}

// excused returns o, with the verdict stalled instead of violated if the process had stood still
// for at least the limit shortly before. Then the server may have read a request late that came
// in time, and unread input extends a limit only once. A pulse excuses clients that were late
// themselves.
func (o outcome) excused(lost, limit time.Duration) outcome {
	if o.verdict == violated && lost >= limit {
		o.verdict = stalled
	}
	return o
}

// tooLate is the outcome of a life whose connection may have timed out because the
// client was late.
func tooLate() outcome { return outcome{verdict: left, unsure: true} }

// A span is between which moments the server saw something. A client knows no
// more: it was after it began to write, and before it had an answer.
type span struct{ from, to time.Time }

// judge judges a connection that was to be closed at least and at most so long after
// since, and that the client saw closed at the time at. Whether that is early is
// measured from since.from, and whether it is late from since.to, so a delay of the
// client never looks like a fault of the server.
func judge(since span, least, most, slack time.Duration, at time.Time) (late time.Duration, fault string) {
	if short := least - at.Sub(since.from); short > 0 {
		return 0, fmt.Sprintf("closed %v before its limit of %v", short, least)
	}
	late = max(0, at.Sub(since.to)-most)
	if late > slack {
		return late, fmt.Sprintf("kept for %v beyond its limit of %v", late, most)
	}
	return late, ""
}

// A pulse is what a client that is to live knows of its own silence. If the
// machine is so busy that the client comes too late, its end is not a fault.
type pulse struct {
	limit   time.Duration
	last    time.Time // the server has seen something at this moment, or later
	overdue bool      // the limit may have passed
}

func newPulse(limit time.Duration, since time.Time) *pulse { return &pulse{limit: limit, last: since} }

// wrote notes a write. It is in time if it was over before the limit could have
// passed: then the server finds the bytes in the kernel before it times out.
func (p *pulse) wrote(begin, end time.Time) {
	if p.overdue || end.Sub(p.last) >= p.limit {
		p.overdue = true
		return
	}
	p.last = begin
}

// heard notes that an answer to what was written at begin has come, so the
// connection was alive then.
func (p *pulse) heard(begin time.Time) { p.last, p.overdue = begin, false }

// excuses reports whether an end that was seen at that moment may be the
// client's own doing.
func (p *pulse) excuses(at time.Time) bool { return p.overdue || at.Sub(p.last) >= p.limit }

// A ration is a minimum rate.
type ration struct {
	bytesPerSecond int
	grace          time.Duration
}

// paid is for how long n bytes keep a connection.
func (r ration) paid(n int) time.Duration {
	return r.grace + time.Duration(n)*time.Second/time.Duration(r.bytesPerSecond)
}

// A ledger brings what a server knows of the end of a connection to the client
// that had it. Both know it by the client's address.
type ledger struct {
	mu   sync.Mutex
	open map[string]*entry
}

// An entry is about one connection.
type entry struct {
	told   chan struct{} // closed once there is something
	reason idle.Reason
	at     time.Time
}

func newLedger() *ledger { return &ledger{open: map[string]*entry{}} }

// enter is called by the client, as soon as it has an address.
func (l *ledger) enter(a net.Addr) *entry {
	e := &entry{told: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[a.String()] = e
	return e
}

// strike is called by the client when it is done.
func (l *ledger) strike(a net.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, a.String())
}

// timedOut is called by the server with the error of a connection, which may be a
// timeout. The last call counts: of HTTP it is told what is about to time out,
// which unread input may avert.
func (l *ledger) timedOut(a net.Addr, err error) {
	var timeout *idle.TimeoutError
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.open[a.String()]
	if e == nil || !errors.As(err, &timeout) {
		return
	}
	if e.reason == 0 {
		close(e.told)
	}
	e.reason, e.at = timeout.Reason, time.Now()
}

// wait returns what the server said, within d. The reason is 0 if it said
// nothing.
func (l *ledger) wait(e *entry, d time.Duration) (idle.Reason, time.Time) {
	select {
	case <-e.told:
	case <-time.After(d):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.reason, e.at
}
