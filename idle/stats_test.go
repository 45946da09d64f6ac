package idle

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestStatsAdd adds every count, also those that are new; but of two longest passes
// the longer one remains.
func TestStatsAdd(t *testing.T) {
	sum := Stats{Tracked: 1, TimedOut: map[Reason]uint64{ReasonIdle: 1}, Longest: 3}
	var other Stats
	v := reflect.ValueOf(&other).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case uint64:
			f.SetUint(uint64(10 + i))
		case time.Duration:
			f.SetInt(int64(10 + i))
		case map[Reason]uint64:
			f.Set(reflect.ValueOf(map[Reason]uint64{ReasonIdle: 2, ReasonRead: 4}))
		case map[string]uint64:
			f.Set(reflect.ValueOf(map[string]uint64{"too old": 3}))
		case map[string]map[Reason]uint64:
			ended := map[Reason]uint64{}
			for _, r := range Reasons() {
				ended[r] = uint64(r)
			}
			f.Set(reflect.ValueOf(map[string]map[Reason]uint64{"chat": ended}))
		case Histogram:
			f.Set(reflect.ValueOf(Histogram{Buckets: [NumBuckets]uint64{3: uint64(i)}, SumMicros: uint64(i)}))
		default:
			t.Fatalf("how does one add a %s?", v.Type().Field(i).Name)
		}
	}
	want := other
	want.Tracked++
	want.TimedOut = map[Reason]uint64{ReasonIdle: 3, ReasonRead: 4}
	if sum.Add(other); !reflect.DeepEqual(sum, want) {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	longest := Stats{Longest: 7}
	longest.Add(Stats{Longest: 5, TimedOut: map[Reason]uint64{ReasonRead: 1}})
	if longest.Longest != 7 || longest.TimedOut[ReasonRead] != 1 {
		t.Errorf("%+v", longest)
	}
}

// A counted is an owner that looks up whether its end has been counted when it is told.
type counted struct {
	tracker *Tracker
	stats   Stats
}

func (o *counted) Expire(*TimeoutError) { o.stats = o.tracker.Stats() }

// TestCountedBeforeTold: whoever learns of an end finds it in the statistics.
func TestCountedBeforeTold(t *testing.T) {
	onBoth(t, Policy{Name: "chat", IdleTimeout: time.Minute}, nil, func(r *rig) {
		var conns [2]Conn
		byHand, idle := &counted{tracker: r.Tracker}, &counted{tracker: r.Tracker}
		r.track(&conns[0], byHand)
		r.track(&conns[1], idle)
		conns[0].End("banned")
		r.wait(2 * time.Minute)
		if st := byHand.stats; st.Live != 1 || st.Shed != 1 || st.Causes["banned"] != 1 || st.ByPhase["chat"][ReasonShed] != 1 {
			t.Errorf("%+v", st)
		}
		if st := idle.stats; st.Live != 0 || st.TimedOut[ReasonIdle] != 1 || st.ByPhase["chat"][ReasonIdle] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestTextsAreBounded gives more causes than are told apart, long ones, and long names.
func TestTextsAreBounded(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Minute}, &Options{OnEnds: func([]End) {}}, func(r *rig) {
		for i := range 1000 {
			r.peer().End(fmt.Sprintf("%d %s", i, strings.Repeat("é", 1000)))
		}
		r.wait(time.Second)
		st, sum := r.Stats(), uint64(0)
		for cause, n := range st.Causes {
			if sum += n; len(cause) > 128 || !utf8.ValidString(cause) {
				t.Errorf("a cause has %d bytes: %q", len(cause), cause)
			}
		}
		if len(st.Causes) != 101 || sum != 1000 || st.Causes["(others)"] != 900 {
			t.Errorf("%d causes, %d connections, %d others", len(st.Causes), sum, st.Causes["(others)"])
		}
		for _, e := range r.RecentEnds() {
			if len(e.Cause) > 128 {
				t.Fatalf("an end has a cause of %d bytes", len(e.Cause))
			}
		}
		_, err := r.Phase(Policy{Name: strings.Repeat("n", 129)})
		if err == nil || !strings.Contains(err.Error(), "Name of a policy has 129 bytes") {
			t.Errorf("a long name: %v", err)
		}
		if _, err := r.Phase(Policy{Name: strings.Repeat("n", 128)}); err != nil {
			t.Error(err)
		}
	})
}
