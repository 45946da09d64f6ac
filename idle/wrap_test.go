package idle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// atWrap runs a test with a tracker whose clock sleeps, so that ticks pass 2³² after the
// given time.
func atWrap(t *testing.T, p Policy, after time.Duration, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(p, &Options{Tick: defaultTick, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, Tracker: tr}
		defer r.end()
		ageClock(tr, 1<<32-tr.clock.Now()-int64(after/defaultTick))
		test(r)
	})
}

// A found peer reports by SocketState what arrived or was sent.
type foundPeer struct {
	peer
	in, out time.Time
	unread  bool
}

func (p *foundPeer) Examine() (e SocketState) {
	if !p.in.IsZero() {
		e.In = time.Since(p.in)
	}
	if !p.out.IsZero() {
		e.Out = time.Since(p.out)
	}
	e.Unread = p.unread
	return e
}

// TestEvidenceAtTheWrap has bytes move in the tick whose stamp would be 0, or about then, and
// the owner report them by SocketState. From then on the connection is active all the time,
// while the clock sleeps.
func TestEvidenceAtTheWrap(t *testing.T) {
	if raceEnabled {
		t.Skip("it sets the clock forward")
	}
	const limit = time.Second
	for name, find := range map[string]func(p *foundPeer, at time.Time){
		"in":     func(p *foundPeer, at time.Time) { p.in = at },
		"out":    func(p *foundPeer, at time.Time) { p.out = at },
		"unread": func(p *foundPeer, _ time.Time) { p.unread = true },
	} {
		for late := time.Duration(-3); late <= 4; late++ {
			const found = 500 * time.Millisecond
			wrap := found - late*defaultTick
			if name == "unread" { // which counts as activity when the limit has passed
				wrap = limit - late*defaultTick
			}
			atWrap(t, Policy{IdleTimeout: limit}, wrap, func(r *rig) {
				p := &foundPeer{}
				r.track(&p.Conn, p)
				r.wait(found)
				find(p, time.Now())
				r.wait(limit - found + 200*time.Millisecond)
				p.unread = false
				for range 20 {
					if name == "out" {
						p.TouchOut()
					} else {
						p.Touch()
					}
					r.wait(limit / 2)
				}
				if !p.Live() {
					r.Errorf("%s %d ticks after the wrap: the active connection was ended: %v", name, late, p.expired)
				}
			})
		}
	}
}

// TestRefreshAtTheWrap refreshes old stamps when the oldest one allowed would be 0.
func TestRefreshAtTheWrap(t *testing.T) {
	var c Conn
	c.start(clock.StampOf(1<<32 - 1))
	c.refresh(1<<32 + 2*clock.MaxTicks)
	if in, out := c.in.stamp.Load(), c.out.stamp.Load(); in.Asleep() || out.Asleep() {
		t.Errorf("the stamps are %d and %d", in.Bits(), out.Bits())
	}
}

// TestForeignClock uses a tracker in a bubble that it was not made in. Its time would go
// back there.
func TestForeignClock(t *testing.T) {
	tr, err := New(Policy{ReadTotal: time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			const want = "idle: a tracker that was made outside a synctest bubble is used in it; make it in the bubble"
			if err := recover(); err != want {
				t.Errorf("panics with %v", err)
			}
		}()
		var p peer
		tr.Track(&p.Conn, &p, hooksOf(&p))
		t.Error("does not panic")
	})
}
