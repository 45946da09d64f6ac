package idle

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// TestCloseOfATrackerBesideTrack closes a tracker while the owner of one of its connections
// closes that, and has another tracker track it. The label of the
// connection that is handed back first is where he does that.
func TestCloseOfATrackerBesideTrack(t *testing.T) {
	var reuse func(owner any)
	told := map[string]int{}
	opts := &Options{
		Shards: 1,
		Label: func(owner any) string {
			if reuse != nil {
				reuse(owner)
			}
			return fmt.Sprint(owner.(*guest).n)
		},
		OnEnds: func(ends []End) {
			for _, e := range ends {
				told[e.Label]++
			}
		},
	}
	onDriver(t, Policy{IdleTimeout: time.Hour}, opts, func(r *rig) {
		other, err := New(Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			r.Fatal(err)
		}
		defer other.Close()
		all, next := r.guests(2), &guest{}
		reuse = func(owner any) {
			reuse = nil
			left := all[1-owner.(*guest).n]
			if !left.conn.Stop() {
				r.Error("it has ended already")
			}
			if err := other.Track(&next.conn, next, hooksOf(next)); err != nil {
				r.Error(err)
			}
		}
		if live, err := r.Tracker.Close(); err != nil || len(live) != 1 {
			r.Errorf("%d are handed back: %v", len(live), err)
		}
		if st := r.Stats(); st.Closed != 2 || st.Live != 0 || st.Lifetime.Count() != 2 {
			r.Errorf("%+v", st)
		}
		if st := other.Stats(); st.Live != 1 || st.Closed != 0 {
			r.Errorf("the other tracker: %+v", st)
		}
		r.wait(2 * time.Minute)
		if next.err == nil {
			r.Error("the connection of the other tracker does not time out")
		}
		if len(told) != 2 || told["0"] != 1 || told["1"] != 1 {
			r.Errorf("told: %v", told)
		}
	})
}

// A hookedLock is a lock that calls a function whenever it is unlocked.
type hookedLock struct {
	sync.Mutex
	hook func()
}

func (l *hookedLock) Unlock() {
	l.Mutex.Unlock()
	if l.hook != nil {
		l.hook()
	}
}

// TestRecordBesideClose has ends recorded from a moment on at which a connection is being
// closed.
func TestRecordBesideClose(t *testing.T) {
	label := func(owner any) string { return fmt.Sprint(owner.(*guest).n) }
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Label: label, Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
		l := &hookedLock{}
		r.own[0].lock = l
		g := &guest{}
		if err := r.own[0].Track(&g.conn, g, hooksOf(g)); err != nil {
			r.Fatal(err)
		}
		l.hook = func() { r.RecentEnds() }
		if !g.conn.Stop() {
			r.Error("it has ended already")
		}
		l.hook = nil
		if st := r.Stats(); st.Panics != 0 || len(r.RecentEnds()) != 1 || r.RecentEnds()[0].Label != "0" {
			r.Errorf("%d panics, %+v", st.Panics, r.RecentEnds())
		}
	})
}

// TestEndAfterReplace renames a phase, and ends a connection that the tracker has not
// looked at since, and closes another. Both are told to have ended in the phase as its name
// is now.
func TestEndAfterReplace(t *testing.T) {
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		all := r.guests(2)
		r.RecentEnds()
		goOn := make(chan struct{})
		r.loop.post(func() {
			<-goOn
			all[0].conn.End("test")
			all[1].conn.Stop()
		})
		if err := r.SetPolicy(Policy{Name: "new", IdleTimeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		close(goOn)
		r.wait(time.Second)
		recent := r.RecentEnds()
		if len(recent) != 2 || recent[0].Phase != "new" || recent[1].Phase != "new" || all[0].err.Phase != "new" {
			r.Errorf("%+v; %+v", recent, all[0].err)
		}
		if n := r.Stats().ByPhase["new"][ReasonShed]; n != 1 {
			r.Errorf("%d were ended in the phase", n)
		}
	})
}
