package idle

import (
	"testing"
	"time"
)

// TestCloseWhileOnEndsBlocks closes a tracker whose OnEnds blocks. Close hands back all
// connections when its time is up, and all ends are told later.
func TestCloseWhileOnEndsBlocks(t *testing.T) {
	goOn, told := make(chan struct{}), 0
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{OnEnds: func(ends []End) {
		<-goOn
		told += len(ends)
	}}, func(r *rig) {
		goOn, told = make(chan struct{}), 0
		all := r.guests(10)
		all[0].conn.Stop()
		r.wait(time.Second)
		begun := time.Now()
		live, err := r.Tracker.Close()
		if took := time.Since(begun); err == nil || len(live) != 9 || took != r.opts.ReapDelay {
			r.Errorf("after %v: %d are handed back: %v", took, len(live), err)
		}
		close(goOn)
		r.wait(time.Second)
		if told != 10 {
			r.Errorf("%d of 10 are told", told)
		}
	})
}

// TestOnEndsCallsTheTracker takes a census, lists connections, reads all that can be read and
// closes the tracker, all in OnEnds.
func TestOnEndsCallsTheTracker(t *testing.T) {
	var r *rig
	calls := 0
	onEnds := func(ends []End) {
		if calls++; calls > 1 {
			return
		}
		c, err := r.Census(r.Context(), Query{Sort: Oldest})
		if err != nil {
			r.Error(err)
			return
		}
		if page, err := c.Page(r.Context(), 0, 10); err != nil || len(page) != 4 {
			r.Errorf("%+v: %v", page, err)
		}
		if st := r.Stats(); len(r.RecentEnds()) != 1 || st.Closed != 1 {
			r.Errorf("%+v", r.Stats())
		}
		if live, err := r.Tracker.Close(); err == nil || len(live) != 4 { // it waits for this very call
			r.Errorf("%d are handed back: %v", len(live), err)
		}
	}
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{OnEnds: onEnds}, func(rig *rig) {
		r, calls = rig, 0
		all := r.guests(5)
		all[0].conn.Stop()
		r.wait(10 * time.Second)
		if calls != 2 || r.Stats().Live != 0 {
			r.Errorf("%d calls: %+v", calls, r.Stats())
		}
	})
}

// TestRetireWithEnds retires a tracker, and ends its last connection, of which it tells.
func TestRetireWithEnds(t *testing.T) {
	told := 0
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{OnEnds: func(ends []End) { told += len(ends) }}, func(r *rig) {
		told = 0
		all := r.guests(2)
		r.CloseWhenEmpty()
		r.do(func() { all[0].conn.Stop() })
		r.wait(2 * time.Minute)
		if _, err := r.Tracker.Close(); err != ErrClosed || told != 2 {
			r.Errorf("%d of 2 are told: %v", told, err)
		}
		if _, err := r.Census(r.Context(), Query{}); err != ErrClosed {
			r.Error(err)
		}
	})
}

// TestAgeAfterClose closes a tracker, and the connections of a loop much later. Nobody
// advances the clock meanwhile.
func TestAgeAfterClose(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.RecentEnds()
		all := r.guests(2)
		r.wait(time.Second)
		r.do(all[0].conn.Touch) // the clock runs
		if _, err := r.Tracker.Close(); err != nil {
			r.Error(err)
		}
		r.wait(time.Minute)
		r.do(func() { all[0].conn.Stop() })
		r.closeShard()
		for _, e := range r.RecentEnds() {
			if e.Age < time.Minute || e.Idle < time.Minute-2*r.opts.Tick {
				r.Errorf("%+v", e)
			}
		}
		if st := r.Stats(); st.Lifetime.Count() != 2 || st.Lifetime.SumMicros < 120e6 {
			r.Errorf("%v", st.Lifetime)
		}
	})
}

// A reaped is a peer that only notes that it ought to close.
type reaped struct {
	peer
	reaps int
}

func (p *reaped) Reap() { p.reaps++ }

// TestRetireWhileOnEndsBlocks retires a tracker whose last connection times out and is not
// closed. It is reaped although OnEnds blocks.
func TestRetireWhileOnEndsBlocks(t *testing.T) {
	var goOn chan struct{}
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{OnEnds: func(ends []End) { <-goOn }}, func(r *rig) {
		goOn = make(chan struct{})
		p := &reaped{}
		r.track(&p.Conn, p)
		r.CloseWhenEmpty()
		r.wait(time.Minute)
		if len(p.expired) != 1 || p.reaps != 1 {
			r.Errorf("expired %d times, reaped %d times", len(p.expired), p.reaps)
		}
		close(goOn)
	})
}

// TestStatsDoNotDecrease reads Stats while a loop's shard is being closed.
func TestStatsDoNotDecrease(t *testing.T) {
	var of *rig
	looks := 0
	label := func(any) string {
		if st := of.Stats(); st.Tracked != 6 || st.Closed == 0 || st.Live+st.Closed != 6 || st.Lifetime.Count() != st.Closed {
			t.Errorf("%+v", st)
		}
		looks++
		return ""
	}
	inBubble(t, Policy{IdleTimeout: time.Hour}, &Options{Label: label, OnEnds: func([]End) {}}, true, func(r *rig) {
		of = r
		r.guests(6)
		r.closeShard()
		if st := r.Stats(); st.Tracked != 6 || st.Closed != 6 || looks != 6 {
			r.Errorf("%d looks; %+v", looks, st)
		}
	})
}
