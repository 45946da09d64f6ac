package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/idle"
)

// A tally is what became of the clients of all servers.
type tally struct {
	begin  time.Time
	window time.Duration

	mu       sync.Mutex
	servers  map[string]*account
	windows  []*spread.Spread // of lateness, by when it ended
	lateness *spread.Spread
	faults   []string // the first ones
	lives    int
	violated int
}

// An account is of one server.
type account struct {
	Lives   map[string]int `json:"lives"` // clients by what they did
	Left    int            `json:"left"`
	Closed  map[string]int `json:"closed"`   // those that had to be, by reason
	Draws   int            `json:"draws"`    // came back, or ended, after their limit: either is right
	Unsure  int            `json:"unsure"`   // of those that left, how many may have been timed out in that moment
	Faults  int            `json:"violated"` // ended as they must not
	Stalled int            `json:"stalled"`  // the same, while this process stood still for a limit or longer
	timeout map[idle.Reason]int
}

const (
	numWindows = 10
	maxFaults  = 20 // that are told of one by one
)

func newTally(targets []*target) *tally {
	t := &tally{servers: map[string]*account{}, lateness: spread.New()}
	for _, target := range targets {
		t.servers[target.name] = &account{Lives: map[string]int{}, Closed: map[string]int{}, timeout: map[idle.Reason]int{}}
	}
	for range numWindows {
		t.windows = append(t.windows, spread.New())
	}
	return t
}

// start sets the time of the windows.
func (t *tally) start(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin, t.window = time.Now(), d/numWindows
}

// add notes how a life ended.
func (t *tally) add(server, life string, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.servers[server]
	t.lives++
	a.Lives[life]++
	if o.reason != 0 {
		a.timeout[o.reason]++
	}
	if o.unsure {
		a.Unsure++
	}
	switch o.verdict {
	case left:
		a.Left++
	case closed:
		a.Closed[o.reason.String()]++
		t.addLate(o)
	case draw:
		a.Draws++
	case stalled:
		a.Stalled++
	case violated:
		a.Faults++
		t.fault("%s, %s: %s (server: %v)", server, life, o.fault, o.reason)
	}
}

func (t *tally) addLate(o outcome) {
	if !o.precise || t.begin.IsZero() || o.at.Before(t.begin) {
		return // of the warm-up
	}
	t.lateness.Add(o.late)
	t.windows[min(numWindows-1, int(o.at.Sub(t.begin)/t.window))].Add(o.late)
}

// fault notes a violation. t must be locked.
func (t *tally) fault(format string, args ...any) {
	t.violated++
	if len(t.faults) < maxFaults {
		at := ""
		if !t.begin.IsZero() {
			at = fmt.Sprintf("%.1f s: ", time.Since(t.begin).Seconds())
		}
		t.faults = append(t.faults, at+fmt.Sprintf(format, args...))
	}
}

// violation notes one that no client has found.
func (t *tally) violation(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault(format, args...)
}

// count returns how many lives there have been, and how many were violated.
func (t *tally) count() (lives, violated int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lives, t.violated
}

// reconcile compares what a server has counted with what its clients have seen.
// Nothing must be going on.
func (a *account) reconcile(dials uint64, st idle.Stats) (faults []string) {
	var timedOut uint64
	for _, n := range st.TimedOut {
		timedOut += n
	}
	if st.Live != 0 {
		faults = append(faults, fmt.Sprintf("%d connections are tracked though none is open", st.Live))
	}
	if sum := st.Live + st.Closed + timedOut; sum != st.Tracked+st.Adopted-st.Released {
		faults = append(faults, fmt.Sprintf("tracked %d, but live, gone and timed out are %d", st.Tracked, sum))
	}
	if st.Tracked != dials {
		faults = append(faults, fmt.Sprintf("tracked %d, but %d were made", st.Tracked, dials))
	}
	if st.Panics != 0 {
		faults = append(faults, fmt.Sprintf("%d panics", st.Panics))
	}
	return append(faults, a.compareReasons(st)...)
}

// compareReasons compares the counts of each reason. They may differ by the
// connections of which the clients do not know how they ended.
func (a *account) compareReasons(st idle.Stats) (faults []string) {
	all := maps.Clone(a.timeout)
	for r := range st.TimedOut {
		all[r] += 0
	}
	for _, r := range slices.Sorted(maps.Keys(all)) {
		if d := int(st.TimedOut[r]) - a.timeout[r]; max(d, -d) > a.Draws+a.Unsure+a.Stalled {
			faults = append(faults, fmt.Sprintf("counted %d timeouts for the reason %v, but %d were seen", st.TimedOut[r], r, a.timeout[r]))
		}
	}
	return faults
}
