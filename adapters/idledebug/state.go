package idledebug

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

// seconds is a duration in JSON.
type seconds float64

func inSeconds(d time.Duration) seconds { return seconds(d.Seconds()) }

// state is the answer to api/state.
type state struct {
	Tracker  string    `json:"tracker"`
	Trackers []string  `json:"trackers"`
	Closed   bool      `json:"closed"`
	At       time.Time `json:"at"`

	Counts   counts            `json:"counts"`
	Ended    map[string]uint64 `json:"ended"`  // by the limit's name or the reason; "closed" stands for those that their owners have closed
	Causes   map[string]uint64 `json:"causes"` // of those that were ended one by one
	Lateness quantiles         `json:"lateness"`
	Lifetime quantiles         `json:"lifetime"`
	Capacity *capacity         `json:"capacity"` // null if there is none
	Draining *draining         `json:"draining"` // null if no drain is under way
	Phases   []phase           `json:"phases"`
	Ends     []end             `json:"ends"`

	Census      *counted `json:"census"`       // null if there is none
	CensusError string   `json:"census_error"` // why there is none, or no newer one
}

type counts struct {
	Tracked  uint64 `json:"tracked"`
	Live     uint64 `json:"live"`
	Refused  uint64 `json:"refused"`
	Extended uint64 `json:"extended"`
	Pings    uint64 `json:"pings"`
	Misses   uint64 `json:"misses"`
	Deferred uint64 `json:"deferred"`
	Panics   uint64 `json:"panics"`
	EndsLost uint64 `json:"ends_lost"`
	Passes   uint64 `json:"passes"`

	PassTotal  seconds `json:"pass_total"`
	Longest    seconds `json:"longest_pass"`
	BacklogAge seconds `json:"backlog_age"`
}

// quantiles holds some quantiles of a histogram.
type quantiles struct {
	Count uint64  `json:"count"`
	P50   seconds `json:"p50"`
	P90   seconds `json:"p90"`
	P99   seconds `json:"p99"`
}

type capacity struct {
	MaxConns int     `json:"max_conns"`
	MinIdle  seconds `json:"min_idle"`
}

type draining struct {
	Left int `json:"left"` // connections
}

// phase is the JSON of the phases of one name.
type phase struct {
	Name    string            `json:"name"`
	Initial bool              `json:"initial"`
	Live    int               `json:"live"` // in the census
	Ended   map[string]uint64 `json:"ended"`
	Limits  []limit           `json:"limits"` // null if no connection is in it
}

// limit is the JSON of a field of a policy that is set. Its value is a text as people
// write it.
type limit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type end struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"` // as in state.Ended

	Phase string  `json:"phase"`
	Cause string  `json:"cause,omitempty"`
	Label string  `json:"label"`
	Age   seconds `json:"age"`
	Idle  seconds `json:"idle"`
	Late  seconds `json:"late"`
}

// counted is the JSON of a census.
type counted struct {
	At     time.Time      `json:"at"`
	Age    seconds        `json:"age"` // how long ago that is
	Took   seconds        `json:"took"`
	Live   int            `json:"live"`
	Idle   []bucket       `json:"idle"`
	Ages   []bucket       `json:"ages"`
	Ending map[string]int `json:"ending"` // within so many seconds

	Unsent     uint64 `json:"unsent"`      // bytes that wait for peers
	WithUnsent int    `json:"with_unsent"` // connections
}

// bucket is the JSON of a bucket of a histogram.
type bucket struct {
	Upto  *seconds `json:"upto"` // null for the last bucket, which has no bound
	Count uint64   `json:"count"`
}

// defaultEnds and maxEnds are how many recent ends are shown.
const (
	defaultEnds = 50
	maxEnds     = 1024
)

// state answers with everything about a tracker except its list of connections.
func (h *Handler) state(w http.ResponseWriter, r *http.Request) error {
	name, l, err := h.look(r)
	if err != nil {
		return err
	}
	n, err := whole(r.URL.Query(), "ends", defaultEnds, 0, maxEnds)
	if err != nil {
		return err
	}
	c, err := l.census.Get(r.Context())
	st, ends := l.snapshot()
	s := state{
		Tracker: name, Trackers: h.names, Closed: errors.Is(err, idle.ErrClosed), At: time.Now(),
		Counts: counts{
			st.Tracked, st.Live, st.Refused, st.Extended, st.Pings, st.Misses, st.Deferred, st.Panics, st.EndsLost,
			st.Passes, inSeconds(st.PassTotal), inSeconds(st.Longest), inSeconds(st.BacklogAge),
		},
		Ended: endedBy(l.tracker, st), Causes: st.Causes, Lateness: quantilesOf(&st.Lateness), Lifetime: quantilesOf(&st.Lifetime),
		Phases: phasesOf(l.tracker, st, c), Ends: endsOf(ends, n),
	}
	if most, ok := l.tracker.Capacity(); ok {
		s.Capacity = &capacity{most.MaxConns, inSeconds(most.MinIdle)}
	}
	if d := l.tracker.Draining(); d != nil {
		s.Draining = &draining{d.Left()}
	}
	if err != nil {
		s.CensusError = err.Error()
	}
	if c != nil {
		s.Census = &counted{c.At, inSeconds(time.Since(c.At)), inSeconds(c.Took), c.Live, bucketsOf(&c.Idle), bucketsOf(&c.Age), map[string]int{}, c.Unsent, c.WithUnsent}
		for i, within := range census.Within {
			s.Census.Ending[fmt.Sprint(within.Seconds())] = c.Ending[i]
		}
	}
	return answer(w, s)
}

// endedBy returns how many connections each setting and each reason that is no limit has ended.
func endedBy(t *idle.Tracker, st idle.Stats) map[string]uint64 {
	by := map[string]uint64{"closed": st.Closed}
	for phase, reasons := range st.ByPhase {
		for r, n := range reasons {
			by[nameOf(t, phase, r)] += n
		}
	}
	return by
}

// phasesOf returns the phases in which connections are or have ended, by name, the initial one
// first. The initial one is also there if it has a name. An initial phase without a name and without
// connections is left out: adapters such as idlehttp don't use it. c may be nil.
func phasesOf(t *idle.Tracker, st idle.Stats, c *census.Census) []phase {
	initial := t.Policy()
	all := map[string]*phase{}
	named := func(name string) *phase {
		if all[name] == nil {
			all[name] = &phase{Name: name, Initial: name == initial.Name, Ended: map[string]uint64{}}
		}
		return all[name]
	}
	for name, reasons := range st.ByPhase {
		for r, n := range reasons {
			if n > 0 {
				named(name).Ended[nameOf(t, name, r)] += n
			}
		}
	}
	if c != nil {
		for name, in := range c.Phases {
			p := named(name)
			p.Live, p.Limits = in.Live, limitsOf(t, in.Policy)
		}
	}
	if p := all[initial.Name]; p != nil || initial.Name != "" {
		named(initial.Name).Limits = limitsOf(t, initial)
	}
	phases := []phase{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == initial.Name {
			phases = slices.Insert(phases, 0, *all[name])
		} else {
			phases = append(phases, *all[name])
		}
	}
	return phases
}

// reasons has the limits among the fields of a policy, by the reasons for which they end connections.
var reasons = map[string]idle.Reason{
	"IdleTimeout": idle.ReasonIdle, "ReadTimeout": idle.ReasonRead, "WriteTimeout": idle.ReasonWrite, "PhaseTimeout": idle.ReasonPhase,
	"MaxAge": idle.ReasonMaxAge, "Heartbeat": idle.ReasonHeartbeat, "MinReadRate": idle.ReasonMinReadRate, "MinWriteRate": idle.ReasonMinWriteRate,
}

// limitsOf returns the fields of a policy that are set, except its name. A limit has the name that its
// user has set.
func limitsOf(t *idle.Tracker, p idle.Policy) []limit {
	set := []limit{}
	for _, field := range fieldsOf(p) {
		if name := field.Name; name != "Name" {
			set = append(set, limit{cmp.Or(t.Setting(p.Name, reasons[name]), name), field.Value})
		}
	}
	return set
}

// fieldsOf returns the fields of a struct that are not zero, and their values as text.
func fieldsOf(of any) (all []limit) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		field := v.Field(i)
		if field.IsZero() {
			continue
		}
		text := fmt.Sprint(field.Interface())
		if field.Kind() == reflect.Struct {
			var parts []string
			for _, f := range fieldsOf(field.Interface()) {
				parts = append(parts, f.Name+" "+f.Value)
			}
			text = strings.Join(parts, ", ")
		}
		all = append(all, limit{v.Type().Field(i).Name, text})
	}
	return all
}

// endsOf returns the n newest ends.
func endsOf(ends []idle.End, n int) []end {
	shown := []end{}
	for _, e := range ends[:min(n, len(ends))] {
		reason := "closed"
		if e.Reason != 0 {
			reason = e.Reason.String()
		}
		shown = append(shown, end{e.Time, cmp.Or(e.Setting, reason), e.Phase, e.Cause, e.Label, inSeconds(e.Age), inSeconds(e.Idle), inSeconds(e.Late)})
	}
	return shown
}

func quantilesOf(h *idle.Histogram) quantiles {
	return quantiles{h.Count(), finite(h.Quantile(0.5)), finite(h.Quantile(0.9)), finite(h.Quantile(0.99))}
}

// finite returns d in seconds. The last bucket has no bound, so for a d in it, finite returns the
// bound of the bucket below.
func finite(d time.Duration) seconds { return inSeconds(min(d, idle.BucketBound(idle.NumBuckets-2))) }

// bucketsOf returns the buckets from the first to the last that is not empty.
func bucketsOf(h *idle.Histogram) []bucket {
	buckets := []bucket{}
	last := idle.NumBuckets - 1
	for last >= 0 && h.Buckets[last] == 0 {
		last--
	}
	for i, n := range h.Buckets[:last+1] {
		if n == 0 && len(buckets) == 0 {
			continue
		}
		b := bucket{Count: n}
		if i < idle.NumBuckets-1 {
			bound := inSeconds(idle.BucketBound(i))
			b.Upto = &bound
		}
		buckets = append(buckets, b)
	}
	return buckets
}
