package idle

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/idlewheel/idlewheel/idle/internal/batch"
	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// ends records how connections end, so that they are kept and reported.
type ends struct {
	*batch.Reporter[End]

	calls *callbacks.Runner
	name  func(owner any) string // Options.Label
	on    atomic.Bool            // ends are recorded
}

// init prepares n for the ends of t.
func (n *ends) init(t *Tracker) {
	n.calls, n.name = &t.calls, t.opts.Label
	var report func([]End)
	if onEnds := t.opts.OnEnds; onEnds != nil {
		report = func(all []End) { t.calls.Guard("OnEnds", func() { onEnds(all) }) }
		n.on.Store(true)
	}
	n.Reporter = batch.New(t.opts.Tick, t.stop, report)
}

// part records the end of a connection, if ends are recorded.
func (n *ends) part(owner any, p *endRecord) {
	if !n.on.Load() {
		return
	}
	e := End{Time: time.Now(), Phase: p.limits.policy.Name, Label: n.label(owner), Age: p.age, Idle: p.idle, Late: p.late}
	if p.err != nil {
		e.Reason, e.Setting, e.Phase, e.Cause = p.err.Reason, p.err.Setting, p.err.Phase, clip(p.err.Cause)
	}
	n.Add(e)
}

// begin asks for the address of a new connection, the default label, so that it's known at the
// end.
func (n *ends) begin(owner any) {
	if n.on.Load() {
		n.calls.Guard("KnownAddr", func() { knownAddr(owner) })
	}
}

// label returns the label of a connection.
func (n *ends) label(owner any) (label string) {
	n.calls.Guard("Label", func() { label = n.name(owner) })
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
// second. The next record says how many were left out. A record has the time of the end. Its reason
// is the name of the limit, as in [TimeoutError].Setting, or drain, shed, evict or closed. A nil
// logger is slog.Default(). Several trackers may share the function.
func LogEnds(logger *slog.Logger, level slog.Leveler) func(ends []End) {
	if logger == nil {
		logger = slog.Default()
	}
	var mu sync.Mutex
	var limit callbacks.LogLimit
	return func(ends []End) {
		ctx, at := context.Background(), level.Level()
		if !logger.Enabled(ctx, at) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range ends {
			leftOut, ok := limit.Allow(e.Time)
			if !ok {
				continue
			}
			reason := "closed"
			if e.Reason != 0 {
				reason = e.Reason.String()
			}
			r := slog.NewRecord(e.Time, at, "idle: a connection has ended", 0)
			r.AddAttrs(slog.String("reason", cmp.Or(e.Setting, reason)), slog.Duration("age", e.Age), slog.Duration("idle", e.Idle))
			for _, text := range []slog.Attr{slog.String("phase", e.Phase), slog.String("cause", e.Cause), slog.String("label", e.Label)} {
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

	Setting string // the limit's, as in [TimeoutError]; empty if none has passed
	Phase   string // Policy.Name of its phase
	Cause   string // passed to [Conn.End], [Info.End] or [Info.EndIfIdle]; the first 128 bytes
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
	limits *limits       // in force then
	state  uint32        // before it
	err    *TimeoutError // nil if the owner has closed it, or it was handed back
	late   time.Duration // how long after it was due
	forced bool          // it was ended although it may have been in use

	age, idle time.Duration // how old the connection was, and how long idle, in whole ticks, rounded down
	last      bool          // its shard has no other one
}

// describe adds how old c is, and how long idle.
func (p *endRecord) describe(c *Conn) {
	k := c.shard.clock
	m := clock.Moment{Now: k.Recent() - 1} // an activity is at the end of its tick at the latest
	since := func(stamp clock.Stamp) time.Duration { return time.Duration(max(m.Now-m.Tick(stamp), 0)) * k.Tick }
	p.age, p.idle = since(c.born.Load()), since(c.lastUse())
}
