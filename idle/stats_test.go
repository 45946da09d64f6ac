package idle

import (
	"fmt"
	"reflect"
	"runtime"
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

// TestCountedBeforeTold: whoever learns of an end finds it in the statistics.
func TestCountedBeforeTold(t *testing.T) {
	onBoth(t, Policy{Name: "chat", IdleTimeout: time.Minute}, nil, func(r *rig) {
		var seen []Stats
		look := func() { seen = append(seen, r.Stats()) }
		byHand := r.with(&peer{onExpire: look})
		r.with(&peer{onExpire: look})
		byHand.End("banned")
		r.wait(2 * time.Minute)
		if st := seen[0]; st.Live != 1 || st.Shed != 1 || st.Causes["banned"] != 1 || st.ByPhase["chat"][ReasonShed] != 1 {
			t.Errorf("%+v", st)
		}
		if st := seen[1]; st.Live != 0 || st.TimedOut[ReasonIdle] != 1 || st.ByPhase["chat"][ReasonIdle] != 1 {
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

func TestHistogram(t *testing.T) {
	var h Histogram
	for d, bucket := range map[time.Duration]int{
		0: 0, -5: 0, 1: 0, time.Microsecond: 1, time.Second: 20, time.Second + 1: 21, 2 * time.Second: 21, 500 * time.Millisecond: 19,
		1 << 62: NumBuckets - 1, 365 * 24 * time.Hour: NumBuckets - 1, 194 * 24 * time.Hour: NumBuckets - 2,
	} {
		if got := bucketOf(d); got != bucket {
			t.Errorf("%v is in bucket %d, want %d", d, got, bucket)
		}
		if bound := BucketBound(bucketOf(d)); d > bound || bucketOf(d) > 0 && d <= BucketBound(bucketOf(d)-1) {
			t.Errorf("%v is in the bucket to %v", d, bound)
		}
	}
	if h.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for i := range 100 {
		h.note(time.Duration(i+1) * time.Second)
	}
	if h.Count() != 100 || h.SumMicros != 5050e6 || h.Quantile(0.5) != 64*time.Second || h.Quantile(0) != time.Second || h.Quantile(1) != 128*time.Second {
		t.Errorf("%d, %v, median %v, least %v, most %v", h.Count(), h.SumMicros, h.Quantile(0.5), h.Quantile(0), h.Quantile(1))
	}
}

// TestSumInAnyOrder adds up shards in another order, as when one of them is closed. A sum that
// becomes less is a counter reset to Prometheus.
func TestSumInAnyOrder(t *testing.T) {
	var shards [3]Histogram
	for i := range shards {
		shards[i].note(time.Duration(i+1) * 100 * time.Millisecond)
	}
	var before, after Histogram
	for i := range shards {
		before.Add(&shards[i])
		after.Add(&shards[2-i])
	}
	if before != after || before.SumMicros != 600_000 {
		t.Errorf("%v and %v", before.SumMicros, after.SumMicros)
	}
}

// TestManyPhaseNames has more names of phases than are counted one by one.
func TestManyPhaseNames(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 2}, func(r *rig) {
		for i := range 2 * (mostNames + 50) {
			r.peer().Enter(r.phaseOf(Policy{Name: fmt.Sprint(i), IdleTimeout: time.Second}))
		}
		r.wait(3 * time.Second)
		st := r.Stats()
		if len(st.ByPhase) > mostNames+1 || st.ByPhase[otherNames][ReasonIdle] < 50 {
			r.Errorf("%d names, %d others", len(st.ByPhase), st.ByPhase[otherNames][ReasonIdle])
		}
	})
}

// TestEndedIsNotLive: no connection that Stats counts as ended is also among its live ones, even if it ends
// meanwhile.
func TestEndedIsNotLive(t *testing.T) {
	tr := newTracker(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 2})
	first, second := tr.own[0], tr.own[1]
	var c Conn
	check(t, first.Track(&c, t, plainHooks()))
	second.mu.Lock() // so that Stats waits here when it has looked at the first shard
	got := make(chan Stats)
	go func() { got <- tr.Stats() }()
	for tr.mu.TryLock() {
		tr.mu.Unlock()
		runtime.Gosched()
	}
	time.Sleep(10 * time.Millisecond)
	first.dismiss(dismissal{conn: &c, reason: ReasonShed, forced: true})
	second.mu.Unlock()
	if st := <-got; st.Live+st.Shed > st.Tracked {
		t.Errorf("of %d, %d are live and %d have ended", st.Tracked, st.Live, st.Shed)
	}
	if st := tr.Stats(); st.Live != 0 || st.Shed != 1 {
		t.Errorf("at last %d are live and %d have ended", st.Live, st.Shed)
	}
}
