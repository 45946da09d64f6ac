package idle

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// closings is how often a test closes a tracker while its driver is busy. Afterwards the driver may
// run a pass first, or see that the tracker is closed.
const closings = 30

// passesTake has each pass of a driver take 20 ms, so that others can do something meanwhile.
var passesTake = Options{OnPass: func(time.Duration) { time.Sleep(20 * time.Millisecond) }}

// A leaver is a connection that is to be ended. Its OnEnd takes a while.
type leaver struct {
	reaper
	key      string
	farewell time.Time // when OnEnd had returned
}

func keyOfLeaver(owner any) string {
	if o, ok := owner.(*leaver); ok {
		return o.key
	}
	return ""
}

func (o *leaver) OnEnd(*TimeoutError) {
	time.Sleep(100 * time.Millisecond)
	o.farewell = time.Now()
}

// TestCloseCarriesOutEnds closes a tracker right after Conn.End, or after a Rekey that has returned
// false. The connection ends for that reason, and isn't handed back, because its owner relies on the
// end: behind Rekey, a Read discards all input until it comes.
func TestCloseCarriesOutEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*leaver) bool
		want TimeoutError
	}{
		"End":   {func(o *leaver) bool { o.End("why"); return true }, TimeoutError{Reason: ReasonShed, Cause: "why"}},
		"Rekey": {func(o *leaver) bool { o.key = "same"; return !o.Rekey() }, TimeoutError{Reason: ReasonEvict, Cause: string(errKey)}},
	} {
		check := func(r *rig) {
			if err := r.SetCapacity(Capacity{PerKey: 1, Key: keyOfLeaver}); err != nil {
				r.Fatal(err)
			}
			stays, leaves := &leaver{key: "same"}, &leaver{}
			r.track(&stays.Conn, stays)
			r.track(&leaves.Conn, leaves)
			other := r.peer()
			r.wait(time.Second)
			if r.loop == nil {
				other.End("a pass begins")
			} else {
				r.do(func() { other.Stop() })
			}
			r.wait(10 * time.Millisecond)
			var live []any
			r.do(func() {
				if !test.end(leaves) {
					r.Error("it may stay")
				}
				if r.shard != nil {
					live, _ = r.shard.Close()
				}
			})
			own, err := r.Tracker.Close()
			if live = append(live, own...); err != nil || !slices.Equal(live, []any{stays}) {
				r.Errorf("%d are handed back, want 1: %v", len(live), err)
			}
			synctest.Wait()
			if x := leaves.expired; len(x) != 1 || x[0].Reason != test.want.Reason || x[0].Cause != test.want.Cause {
				r.Errorf("expired: %v; want %v (%v)", x, test.want.Reason, test.want.Cause)
			}
			if at := leaves.reaped; len(at) != 1 || at[0].Before(leaves.farewell) {
				r.Errorf("reaped at %v, OnEnd has returned at %v", at, leaves.farewell)
			}
			if stays.End("late"); !stays.Rekey() || len(stays.expired) > 0 {
				r.Error("a connection that was handed back is ended")
			}
			if st := r.Stats(); st.Live != 0 || st.Closed+st.Shed+st.Evicted != 3 || len(r.keys.Load().of) != 0 {
				r.Errorf("by key: %d; %+v", len(r.keys.Load().of), st)
			}
		}
		t.Run(name, func(t *testing.T) {
			for range closings {
				inBubble(t, Policy{IdleTimeout: time.Hour}, &passesTake, false, check)
				inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, check)
			}
		})
	}
}

// TestCloseBesideOperations closes a tracker while a Drain or a Shed has orders under way. Each
// connection is either ended or handed back, and the operation counts as the tracker does.
func TestCloseBesideOperations(t *testing.T) {
	for name, begin := range map[string]func(*rig) (*Operation, error){
		"Drain":        func(r *rig) (*Operation, error) { return r.Drain(Drain{}) },
		"Drain forced": func(r *rig) (*Operation, error) { return r.Drain(Drain{ForceAfter: time.Millisecond}) },
		"Shed":         func(r *rig) (*Operation, error) { return r.Shed(Shed{Fraction: 0.5, Duration: 100 * time.Millisecond}) },
	} {
		check := func(r *rig, delay time.Duration) {
			const n = 50
			all := make([]*reaper, n)
			for i := range all {
				all[i] = &reaper{}
				r.track(&all[i].Conn, all[i])
			}
			r.wait(time.Second)
			o, err := begin(r)
			if err != nil {
				r.Fatal(err)
			}
			time.Sleep(delay)
			live := r.closeShard()
			own, err := r.Tracker.Close()
			live = append(live, own...)
			<-o.Done()
			synctest.Wait()
			ended := 0
			for _, p := range all {
				back := slices.Contains(live, any(p))
				if len(p.expired) > 0 == back || len(p.reaped) != len(p.expired) || p.Live() {
					r.Errorf("handed back: %v; expired %d times, reaped %d times", back, len(p.expired), len(p.reaped))
				}
				ended += len(p.expired)
			}
			st, pr := r.Stats(), o.Progress()
			if err != nil || st.Live != 0 || st.Closed != uint64(len(live)) || pr.Ended != ended || !pr.Finished {
				r.Errorf("%v; %d ended, %d handed back; %+v; %+v", err, ended, len(live), pr, st)
			}
		}
		t.Run(name, func(t *testing.T) {
			for i := range closings {
				for _, looped := range []bool{false, true} {
					inBubble(t, Policy{IdleTimeout: time.Hour}, &passesTake, looped, func(r *rig) { check(r, time.Duration(i)*stepsEvery/2) })
				}
			}
		})
	}
}
