package idledebug

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// seconds is a duration in JSON.
type seconds float64

func inSeconds(d time.Duration) seconds { return seconds(d.Seconds()) }

// state is the answer to api/state.
type state struct {
	Tracker  string    `json:"tracker"`
	Trackers []string  `json:"trackers"`
	Steer    bool      `json:"steer"`
	Settings []string  `json:"settings,omitempty"` // that api/limits can change
	Closed   bool      `json:"closed"`
	At       time.Time `json:"at"`

	Counts     counts            `json:"counts"`
	Ended      map[string]uint64 `json:"ended"` // by reason; "closed" stands for those that their owners have closed, "released" for those that are open and no longer tracked
	Causes     map[string]uint64 `json:"causes"`
	Refused    map[string]uint64 `json:"refused"` // by limit
	Lateness   quantiles         `json:"lateness"`
	Lifetime   quantiles         `json:"lifetime"`
	IdleAtEnd  quantiles         `json:"idle_at_end"`
	PassTime   quantiles         `json:"pass_time"`
	Pressure   float64           `json:"pressure"`
	Capacity   *capacity         `json:"capacity"` // null if there is none
	Phases     []phase           `json:"phases"`
	Operations []operation       `json:"operations"`
	Ends       []end             `json:"ends"`

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

	PressureFailures uint64 `json:"pressure_failures"`
}

// quantiles are those of a histogram, in seconds.
type quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
}

type capacity struct {
	MaxConns   int     `json:"max_conns"`
	MinIdle    seconds `json:"min_idle"`
	PerKey     int     `json:"per_key"`
	New        quota   `json:"new"`
	NewPerKey  quota   `json:"new_per_key"`
	Handshakes int     `json:"handshakes"`

	HandshakesPerKey int `json:"handshakes_per_key"`
}

type quota struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
}

// phase is the JSON of the phases of one name.
type phase struct {
	Name    string            `json:"name"`
	Initial bool              `json:"initial"`
	Live    int               `json:"live"`
	Ended   map[string]uint64 `json:"ended"`
	Rest    []limit           `json:"rest"`
	InForce []limit           `json:"in_force"` // differs under pressure
}

type end struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"` // closed if the owner has closed it

	Setting string  `json:"setting,omitempty"` // of the limit
	Phase   string  `json:"phase"`
	Cause   string  `json:"cause,omitempty"`
	Label   string  `json:"label"`
	Age     seconds `json:"age"`
	Idle    seconds `json:"idle"`
	Late    seconds `json:"late"`
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
	Upto  *float64 `json:"upto"` // in seconds; null for the last bucket, which has no bound
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
	c, err := l.newest(r.Context())
	st, ends := l.snapshot.take()
	follower := l.follows()
	s := state{
		Tracker: name, Trackers: h.names, Steer: h.steer, Closed: errors.Is(err, idle.ErrClosed), At: time.Now(),
		Counts: counts{
			st.Tracked, st.Live, st.Refused, st.Extended, st.Pings, st.Misses, st.Deferred, st.Panics, st.EndsLost,
			st.Passes, inSeconds(st.PassTotal), inSeconds(st.Longest), inSeconds(st.BacklogAge), follower.Failures(),
		},
		Ended: endedBy(l.tracker, st), Causes: st.Causes,
		Refused: map[string]uint64{
			"full": st.Refused - st.RefusedKey - st.RefusedRate - st.RefusedHandshake,
			"key":  st.RefusedKey, "rate": st.RefusedRate, "handshake": st.RefusedHandshake,
		},
		Lateness: quantilesOf(&st.Lateness), Lifetime: quantilesOf(&st.Lifetime), IdleAtEnd: quantilesOf(&st.Idle), PassTime: quantilesOf(&st.PassTime),
		Pressure: follower.Pressure(), Phases: l.phasesOf(st, c), Operations: l.ops.show(l.tracker),
		Ends: endsOf(ends, n),
	}
	if most, ok := l.tracker.Capacity(); ok {
		s.Capacity = &capacity{
			MaxConns: most.MaxConns, MinIdle: inSeconds(most.MinIdle), PerKey: most.PerKey,
			Handshakes: most.Handshakes, HandshakesPerKey: most.HandshakesPerKey,
			New: quota(most.New), NewPerKey: quota(most.NewPerKey),
		}
	}
	if h.steer {
		s.Settings = settingNames()
	}
	if err != nil {
		s.CensusError = err.Error()
	}
	if c != nil {
		s.Census = &counted{c.At, inSeconds(time.Since(c.At)), inSeconds(c.Took), c.Live, bucketsOf(&c.Idle), bucketsOf(&c.Age), map[string]int{
			"1": c.Ending(time.Second), "10": c.Ending(10 * time.Second), "60": c.Ending(time.Minute),
		}, c.Unsent, c.WithUnsent}
	}
	return answer(w, s)
}

// endedBy returns how many connections each setting and each operation has ended.
func endedBy(t *idle.Tracker, st idle.Stats) map[string]uint64 {
	by := map[string]uint64{"closed": st.Closed, "released": st.Released}
	for phase, reasons := range st.ByPhase {
		for r, n := range reasons {
			by[cmp.Or(t.Setting(phase, r), r.String())] += n
		}
	}
	return by
}

// phasesOf returns all phases that are known, the initial one first. c may be nil.
func (l *look) phasesOf(st idle.Stats, c *census) []phase {
	l.mu.Lock()
	known := maps.Clone(l.phases)
	l.mu.Unlock()
	follower := l.follows()
	initial := l.tracker.Policy().Name
	if p := l.phase(initial); p != nil {
		known[initial] = p
	}
	names := slices.Sorted(maps.Keys(known))
	slices.SortStableFunc(names, func(a, b string) int {
		switch initial {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	phases := []phase{}
	for _, name := range names {
		p := phase{Name: name, Initial: name == initial, Ended: map[string]uint64{}, Rest: limitsOf(follower.Rest(known[name])), InForce: limitsOf(known[name].Policy())}
		if c != nil {
			p.Live = c.Phases[name].Live
		}
		for reason, n := range st.ByPhase[name] {
			p.Ended[reason.String()] = n
		}
		phases = append(phases, p)
	}
	return phases
}

// endsOf returns the n newest ends.
func endsOf(ends []idle.End, n int) []end {
	shown := []end{}
	for _, e := range ends[:min(n, len(ends))] {
		reason := "closed"
		if e.Reason != 0 {
			reason = e.Reason.String()
		}
		shown = append(shown, end{e.Time, reason, e.Setting, e.Phase, e.Cause, e.Label, inSeconds(e.Age), inSeconds(e.Idle), inSeconds(e.Late)})
	}
	return shown
}

func quantilesOf(h *idle.Histogram) quantiles {
	return quantiles{h.Count(), finite(h.Quantile(0.5)), finite(h.Quantile(0.9)), finite(h.Quantile(0.99))}
}

// finite returns d in seconds. The last bucket has no bound, so for a d in it, finite returns the
// bound of the bucket below.
func finite(d time.Duration) float64 { return min(d, idle.BucketBound(idle.NumBuckets-2)).Seconds() }

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
			bound := idle.BucketBound(i).Seconds()
			b.Upto = &bound
		}
		buckets = append(buckets, b)
	}
	return buckets
}
