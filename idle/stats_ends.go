package idle

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// ends are the ends that a tracker keeps and reports. Each end is added by the
// goroutine that ends the connection, and reported by another one, so no pass waits for
// the user. That goroutine exists only while there are ends to report.
type ends struct {
	tracker *Tracker

	on   atomic.Bool // ends are recorded
	lost atomic.Uint64
	full chan struct{} // wakes the reporter when many are waiting

	running running // the reporter; separate from other callbacks, because those must not wait for the user

	mu        sync.Mutex // guards what follows
	ring      []End      // the last ones
	next      uint64     // how many have been kept in ring
	waiting   []End      // to be reported
	reporting bool       // the reporter exists
}

const (
	keptEnds    = 1024
	mostWaiting = 1 << 16
)

// add records an end.
func (n *ends) add(e End) (startReporter bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ring == nil {
		n.ring = make([]End, 0, keptEnds)
	}
	if len(n.ring) < keptEnds {
		n.ring = append(n.ring, e)
	} else {
		n.ring[n.next%keptEnds] = e
	}
	n.next++
	switch {
	case n.tracker.opts.OnEnds == nil:
		return false
	case len(n.waiting) == mostWaiting:
		n.lost.Add(1)
		return false
	}
	if n.waiting = append(n.waiting, e); len(n.waiting) == mostWaiting/2 {
		select {
		case n.full <- struct{}{}:
		default:
		}
	}
	startReporter = !n.reporting
	n.reporting = true
	return startReporter
}

// recent returns the ends that are kept, the newest first.
func (n *ends) recent() []End {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]End, len(n.ring))
	for i := range all {
		all[i] = n.ring[(n.next-1-uint64(i))%keptEnds]
	}
	return all
}

// take returns the ends that wait, and collects later ones in buf. If there are none, the
// reporter has to end.
func (n *ends) take(buf []End) []End {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.waiting
	n.waiting = buf[:0]
	if len(all) == 0 {
		n.waiting, n.reporting = nil, false
	}
	return all
}

// part records the end of a connection, if ends are recorded.
func (n *ends) part(owner any, p *endRecord) {
	if !n.on.Load() || p.stays {
		return
	}
	e := End{Time: time.Now(), Phase: p.phase.policy.Name, Label: n.label(owner), Age: p.age, Idle: p.idle, Late: p.late}
	if p.err != nil {
		e.Reason, e.Setting, e.Phase, e.Cause = p.err.Reason, p.err.Setting, p.err.Phase, clip(p.err.Cause)
	}
	if n.add(e) {
		n.running.begin()
		go n.running.run(n.report)
	}
}

// report is the reporter. It collects for a tick before each report, unless the tracker
// is closed.
func (n *ends) report() {
	timer := time.NewTimer(n.tracker.opts.Tick)
	defer timer.Stop()
	for buf := []End(nil); ; timer.Reset(n.tracker.opts.Tick) {
		select {
		case <-timer.C:
		case <-n.full:
		case <-n.tracker.stop:
		}
		buf = n.take(buf)
		if len(buf) == 0 {
			return
		}
		n.tracker.calls.guard("OnEnds", func() { n.tracker.opts.OnEnds(buf) })
		clear(buf)
	}
}

// begin asks for the address of a new connection, the default label, so that it's known at the
// end.
func (n *ends) begin(owner any) {
	if n.on.Load() {
		n.tracker.calls.guard("KnownAddr", func() { knownAddr(owner) })
	}
}

// label returns the label of a connection.
func (n *ends) label(owner any) (label string) {
	n.tracker.calls.guard("Label", func() { label = n.tracker.opts.Label(owner) })
	return clip(label)
}

// clip returns the first mostLabel bytes of text, or fewer so that no rune is cut.
func clip(text string) string {
	if len(text) <= mostLabel {
		return text
	}
	end := mostLabel
	for end > mostLabel-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// LogEnds returns a function for [Options].OnEnds that logs each end at a level, at most 100 per
// second. The next record says how many were left out. A record has the time of the end. A nil
// logger is slog.Default(). Several trackers may share the function.
func LogEnds(logger *slog.Logger, level slog.Leveler) func(ends []End) {
	if logger == nil {
		logger = slog.Default()
	}
	var mu sync.Mutex
	var limit logLimit
	return func(ends []End) {
		ctx, at := context.Background(), level.Level()
		if !logger.Enabled(ctx, at) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range ends {
			leftOut, ok := limit.allow(e.Time)
			if !ok {
				continue
			}
			reason := "closed"
			if e.Reason != 0 {
				reason = e.Reason.String()
			}
			r := slog.NewRecord(e.Time, at, "idle: a connection has ended", 0)
			r.AddAttrs(slog.String("reason", reason), slog.Duration("age", e.Age), slog.Duration("idle", e.Idle))
			for _, text := range []slog.Attr{slog.String("setting", e.Setting), slog.String("phase", e.Phase), slog.String("cause", e.Cause), slog.String("label", e.Label)} {
				if text.Value.String() != "" {
					r.AddAttrs(text)
				}
			}
			if e.Late > 0 {
				r.AddAttrs(slog.Duration("late", e.Late))
			}
			if leftOut > 0 {
				r.AddAttrs(slog.Int("left_out", leftOut))
			}
			_ = logger.Handler().Handle(ctx, r)
		}
	}
}

// An End says how a tracked connection ended.
type End struct {
	Time   time.Time
	Reason Reason // 0 if its owner has closed it, or it was handed back by Close

	Setting string // the limit's, as in [TimeoutError]; empty for operations
	Phase   string // Policy.Name of its phase
	Cause   string // of [Tracker.Shed] and [Conn.End]; the first 128 bytes
	Label   string // see Options.Label

	Age  time.Duration // see [Conn.Age]
	Idle time.Duration // since its last use, see [Conn.Idle]
	Late time.Duration // how long after it was due, for the Reason of a limit
}

// label is the default of Options.Label.
func label(owner any) string {
	if addr := knownAddr(owner); addr != nil {
		return addr.String()
	}
	return ""
}

// knownAddr returns the address of an owner's peer, or nil if there is none, or it is not
// known yet.
func knownAddr(owner any) net.Addr {
	switch peer := owner.(type) {
	case interface{ KnownAddr() net.Addr }:
		return peer.KnownAddr()
	case interface{ RemoteAddr() net.Addr }:
		return peer.RemoteAddr()
	}
	return nil
}

// An endRecord has what is known about a connection when it ends.
type endRecord struct {
	phase        *Phase
	born, active clock.Stamp // when it was tracked, and its last use

	age, idle time.Duration // how old the connection was, and how long idle; see counters.part

	stays bool // the connection is open, and not tracked any more

	err  *TimeoutError // nil if the owner has closed it, or it was handed back
	late time.Duration // how long after it was due
}

// endRecord returns the end record of e.
func (e *entry) endRecord() endRecord {
	return endRecord{phase: e.phase.Load().latest(), born: e.born.Load(), active: e.lastUse()}
}

// part notes and counts the age and idle time of a connection that has ended, in whole ticks,
// rounded down.
func (n *counters) part(p *endRecord, k *clock.Clock) {
	m := moment{now: k.Recent() - 1} // an activity is at the end of its tick at the latest
	since := func(stamp clock.Stamp) time.Duration { return time.Duration(max(m.now-m.tick(stamp), 0)) * k.Tick }
	p.age, p.idle = since(p.born), since(p.active)
	n.lifetime.note(p.age)
	n.idle.note(p.idle)
}
