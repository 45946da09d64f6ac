package idle

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// panics checks that f panics with a text of this package that contains want.
func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		text, _ := recover().(string)
		if !strings.HasPrefix(text, "idle: ") || !strings.Contains(text, want) {
			t.Errorf("panic with %q; want %q in it", text, want)
		}
	}()
	f()
}

// TestMisusePanicsWithWords checks that a mistake in a program is told by this
// package, not by the runtime.
func TestMisusePanicsWithWords(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p, zero := r.peer(), new(Tracker)
		panics(t, "Track(nil", func() { r.Tracker.Track(nil, p, hooksOf(p)) })
		panics(t, "without Hooks.Expire", func() { r.Tracker.Track(new(Conn), p, &Hooks{}) })
		panics(t, "without an owner", func() { r.Tracker.Track(new(Conn), nil, hooksOf(nil)) })
		panics(t, "Enter(nil)", func() { p.Enter(nil) })
		panics(t, "NewShard(nil)", func() { r.NewShard(nil) })
		panics(t, "zero Tracker", func() { zero.Track(new(Conn), p, hooksOf(p)) })
		panics(t, "zero Tracker", func() { zero.Phase(Policy{IdleTimeout: time.Second}) })
		panics(t, "zero Tracker", func() { zero.NewShard(func(func()) error { return nil }) })
		panics(t, "zero Tracker", func() { zero.Policy() })
		panics(t, "zero Tracker", func() { zero.Stats() })
		panics(t, "zero Tracker", func() { zero.Close() })
		panics(t, "zero Tracker", func() { zero.Drain(Drain{}) })
		panics(t, "zero Tracker", func() { zero.SetCapacity(Capacity{}) })
		panics(t, "zero Tracker", func() { zero.Visit(r.Context(), func(Info) {}) })
		panics(t, "nil function", func() { r.Visit(r.Context(), nil) })
		panics(t, "End of a zero Info", func() { new(Info).End("") })
		panics(t, "EndIfIdle of a zero Info", func() { new(Info).EndIfIdle("") })
		panics(t, "Label of a zero Info", func() { new(Info).Label() })
		panics(t, "nil or", func() { (*Tracker)(nil).Track(new(Conn), p, hooksOf(p)) })
		panics(t, "SetPolicy of a nil Phase", func() { (*Phase)(nil).SetPolicy(r.Policy()) })
		other := newTracker(r, Policy{IdleTimeout: time.Hour}, nil)
		pings := r.phaseOf(beats)
		panics(t, "another tracker", func() { p.Enter(other.phase) })
		panics(t, "no Ping to call", func() { p.Enter(pings) })
		if r.lives(p, 0); p.phase.Load() != r.phase {
			r.Error("it has entered a phase")
		}
	})
	onBoth(t, beats, nil, func(r *rig) {
		p := &peer{}
		if err := r.tryTrack(&p.Conn, p); err == nil || p.Live() {
			r.Errorf("tracked an owner that cannot ping: %v", err)
		}
	})
}

// TestTrackOnAClosedShard tells a shard that is closed from a tracker that is.
func TestTrackOnAClosedShard(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		r.closeShard()
		err := r.tryTrack(new(Conn), &peer{})
		if !errors.Is(err, ErrShardClosed) || errors.Is(err, ErrClosed) {
			r.Errorf("Track on a closed shard of an open tracker: %v", err)
		}
		var again error
		r.do(func() { _, again = r.shard.Close() })
		if !errors.Is(again, ErrShardClosed) {
			r.Errorf("second Close of a shard: %v", again)
		}
	})
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		r.Tracker.Close()
		if err := r.tryTrack(new(Conn), &peer{}); !errors.Is(err, ErrClosed) {
			r.Errorf("Track on a shard of a closed tracker: %v", err)
		}
	})
}

// TestExecuteThatPanics has the function that hands passes to a loop panic: the
// driver must live, tell of it, and try again.
func TestExecuteThatPanics(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	quiet := &Options{Logger: slog.New(slog.DiscardHandler)}
	onDriver(t, Policy{IdleTimeout: time.Second}, quiet, func(r *rig) {
		loop := newLoop()
		defer loop.stop()
		s, err := r.NewShard(func(pass func()) error {
			if broken.Load() {
				panic("no loop")
			}
			loop.post(pass)
			return nil
		})
		check(r, err)
		defer loop.do(func() { s.Close() })
		p, other := &peer{}, &peer{}
		loop.do(func() { err = s.Track(&p.Conn, p, hooksOf(p)) })
		if err != nil || r.Track(&other.Conn, other, hooksOf(other)) != nil {
			r.Fatal(err)
		}
		r.wait(2 * time.Second)
		if r.Stats().Panics == 0 || len(other.expired) != 1 {
			r.Errorf("%+v; the other shard's connection timed out: %v", r.Stats(), other.expired)
		}
		broken.Store(false)
		r.wait(time.Second)
		loop.do(func() {
			if len(p.expired) != 1 {
				r.Errorf("timed out once the loop is there: %v", p.expired)
			}
		})
	})
}

// TestBudgetIsNeverNone divides a budget by more shards than it has nanoseconds: 0
// would be no limit at all.
func TestBudgetIsNeverNone(t *testing.T) {
	opts := &Options{Shards: 8, Budget: 5}
	onDriver(t, Policy{IdleTimeout: time.Second}, opts, func(r *rig) {
		for range 2000 {
			r.with(&peer{onExpire: func() { time.Sleep(100 * time.Microsecond) }})
		}
		r.wait(20 * time.Second)
		if st := r.Stats(); st.Longest > jobsPerLock*100*time.Microsecond || st.Live > 0 {
			r.Errorf("want passes of %v at most; %+v", jobsPerLock*100*time.Microsecond, st)
		}
	})
}

// TestPulseOfLongAgo has a Prober report bytes that came longer ago than stamps can
// tell.
func TestPulseOfLongAgo(t *testing.T) {
	for _, ago := range []time.Duration{(1<<31 + 100) * defaultTick, (1<<32 - 100) * defaultTick, 1 << 62, 1<<63 - 1} {
		for name, pulse := range map[string]SocketState{"in": {In: ago}, "out": {Out: ago}} {
			onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
				p, born := r.prober(func() SocketState { return pulse }), time.Now()
				r.wait(10 * time.Second)
				if len(p.expired) != 1 || p.at.Sub(born) > time.Second+r.late() {
					r.Errorf("%s %v ago: %v after %v", name, ago, p.expired, p.at.Sub(born))
				}
			})
		}
	}
}

// TestNewPhased: the initial phase, which has no connections, has no policy that could be replaced.
func TestNewPhased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := Policy{IdleTimeout: time.Minute}
		tracker, err := NewPhased(nil, nil)
		check(t, err)
		defer tracker.Close()
		for what, err := range map[string]error{"Tracker.SetPolicy": tracker.SetPolicy(minute), "Phase.SetPolicy": tracker.Initial().SetPolicy(minute)} {
			if err == nil || !strings.Contains(err.Error(), "SetTimeouts") {
				t.Errorf("%s: %v", what, err)
			}
		}
		other, err := tracker.Phase(minute)
		check(t, err)
		if err := other.SetPolicy(Policy{IdleTimeout: time.Hour}); err != nil {
			t.Errorf("another phase: %v", err)
		}
	})
}

// TestForgottenUnits: a number without a unit is nanoseconds. That's refused, and so is what makes no sense.
func TestForgottenUnits(t *testing.T) {
	hour := Policy{IdleTimeout: time.Hour}
	onDriver(t, hour, nil, func(r *rig) {
		drain := func(d Drain) error { _, err := r.Drain(d); return err }
		opts := func(o Options) error {
			tr, err := New(hour, &o)
			if err == nil {
				tr.Close()
			}
			return err
		}
		for want, err := range map[string]error{
			"Drain.Duration is 30ns, shorter than 1ms; write it with a unit": drain(Drain{Duration: 30}),
			"Drain.CloseDelay is 30ns":                                       drain(Drain{CloseDelay: 30}),
			"Drain.ForceAfter is 1µs":                                        drain(Drain{ForceAfter: time.Microsecond}),
			"Drain.Duration is -1s":                                          drain(Drain{Duration: -time.Second}),
			"Drain.CloseDelay is -1s":                                        drain(Drain{CloseDelay: -time.Second}),
			"Drain.ForceAfter is -1s":                                        drain(Drain{ForceAfter: -time.Second}),
			"Drain.ForceAfter is 5s, shorter than the Duration of 10s":       drain(Drain{Duration: 10 * time.Second, ForceAfter: 5 * time.Second}),
			"Drain.ForceAfter is 5s, shorter than the CloseDelay of 10s":     drain(Drain{CloseDelay: 10 * time.Second, ForceAfter: 5 * time.Second}),
			"Capacity.MinIdle is 30ns":                                       r.SetCapacity(Capacity{MinIdle: 30}),
			"Capacity.MinIdle is -1ns":                                       r.SetCapacity(Capacity{MaxConns: 1, MinIdle: -1}),
			"Capacity.MaxConns is -1":                                        r.SetCapacity(Capacity{MaxConns: -1}),
			"Capacity.Exempt[1] is nil":                                      r.SetCapacity(Capacity{MaxConns: 1, Exempt: []*Phase{r.phase, nil}}),
			"Options.Tick is 30ns":                                           opts(Options{Tick: 30}),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), "idle: "+want) {
				t.Errorf("want %q; got %v", want, err)
			}
		}
		if c, ok := r.Capacity(); ok || r.Draining() != nil {
			t.Errorf("a drain has begun, or the capacity is %+v", c)
		}
	})
}
