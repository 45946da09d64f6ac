package idle

import (
	"reflect"
	"testing"
	"time"
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
			f.Set(reflect.ValueOf(Histogram{Buckets: [NumBuckets]uint64{3: uint64(i)}, Sum: float64(i)}))
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
