package control

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestControl: connections are ended for each reason, and at last the tracker is as it was.
func TestControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := idle.Policy{Name: "served", IdleTimeout: time.Second}
		tracker, err := idle.New(policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		var hooks idle.Hooks
		track := func() {
			for tracker.Stats().Live < 10 {
				c := new(idle.Conn)
				if tracker.Track(c, c, &hooks) != nil {
					return
				}
				c.AwaitRead()
			}
		}
		hooks.Expire = func(any, *idle.TimeoutError) {}
		stop := Start(1, tracker)
		limits := map[time.Duration]bool{}
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			track()
			limits[tracker.Policy().IdleTimeout] = true
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s := tracker.Stats()
		for _, r := range []idle.Reason{idle.ReasonDrain, idle.ReasonShed, idle.ReasonEvict} {
			if s.ByReason()[r] == 0 {
				t.Errorf("none was ended by %v: %v", r, s.ByReason())
			}
		}
		if s.Causes["by hand"] == 0 || s.Causes["idle"] == 0 || s.Refused == 0 || len(limits) < 4 {
			t.Errorf("%+v, limits %v", s, limits)
		}
		if d := tracker.Draining(); d != nil {
			t.Errorf("%+v is left", d)
		}
		if _, limited := tracker.Capacity(); limited {
			t.Error("the capacity is left")
		}
		if p := tracker.Policy(); p != policy {
			t.Errorf("the policy that is left is %+v", p)
		}
		if _, err := tracker.Close(); err != nil {
			t.Error(err)
		}
	})
}
