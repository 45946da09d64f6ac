package idledebug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

const (
	every       = time.Second      // a census of a tracker begins at most so often
	censusLasts = 10 * time.Second // a census is dropped then, because it keeps its connections from being freed
	patience    = 3 * time.Second  // a request waits for a census, or for a page of it, at most so long
	longest     = 30 * time.Second // a census that takes longer is given up

	tooOld  = 2 * time.Second // a request waits for a newer census than one of this age,
	freshen = time.Second     // at most so long

	maxCensuses = 4
	maxPhases   = 100
)

// A view is what a census lists.
type view struct {
	sort     idle.Sort
	filtered bool   // only the phase is listed
	phase    string // Policy.Name
}

// A census is one of a look.
type census struct {
	*idle.Census
	view  view
	pages listPages
}

// A look has what all viewers of a tracker share: its censuses, its counts, its phases, its
// operations and the rows that were listed last.
//
// A request uses the last census, and asks for a new one if that is a second old. It waits only
// if there is none, and for a short time if the last one is older than two seconds. A goroutine
// takes the requested censuses, one per second, and ends when there are no requests. So the page
// is up to two seconds old, or more if several lists are viewed.
type look struct {
	tracker  *idle.Tracker
	ops      operations
	listed   listed
	snapshot snapshot
	changing sync.Mutex // held while limits are changed
	follows  func() *pressure.Follower

	mu       sync.Mutex
	censuses []*census    // the newest last, one for a view
	wanted   map[view]int // how many requests wait for it
	begun    time.Time    // when a census was begun last
	taking   bool         // it has not ended
	failed   error        // of the last census
	news     chan struct{}
	running  bool
	phases   map[string]*idle.Phase // by name; see phase
	several  map[string]bool        // censuses have met more than one phase with this name
}

func newLook(t *idle.Tracker, steer bool) *look {
	t.RecentEnds() // has ends recorded from now on
	ids := newIssuer()
	l := &look{
		tracker: t, follows: func() *pressure.Follower { return nil }, ops: operations{ids: ids}, listed: listed{on: steer, ids: ids}, snapshot: snapshot{tracker: t},
		news: make(chan struct{}), wanted: map[view]int{}, phases: map[string]*idle.Phase{}, several: map[string]bool{},
	}
	if name := t.Policy().Name; name != "" {
		l.phases[name] = t.Initial()
	}
	return l
}

// newest returns the newest census, no matter which connections it lists.
func (l *look) newest(ctx context.Context) (*census, error) {
	return l.await(ctx, func() (*census, view) {
		if n := len(l.censuses); n > 0 {
			return l.censuses[n-1], l.censuses[n-1].view
		}
		return nil, view{}
	})
}

// list returns a census that lists what v says.
func (l *look) list(ctx context.Context, v view) (*census, error) {
	return l.await(ctx, func() (*census, view) { return l.find(v), v })
}

// find returns a census that is held, or nil. l.mu must be held.
func (l *look) find(v view) *census {
	for _, c := range l.censuses {
		if c.view == v {
			return c
		}
	}
	return nil
}

// await returns the census that find returns, and asks for a new one if that is a second old. If
// there is none, it waits for one. If there is one, it waits a little for a newer one. It may
// return a census together with an error, if no newer one could be taken. For a closed tracker it
// returns no census.
func (l *look) await(ctx context.Context, find func() (*census, view)) (*census, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	c, v := find()
	if c != nil {
		if _, err := c.Page(ctx, 0, 0); errors.Is(err, idle.ErrClosed) { // this page is empty and costs nothing
			l.censuses, l.failed = nil, err
			return nil, err
		}
		slow := l.taking && time.Since(l.begun) > patience
		switch age := time.Since(c.At); {
		case age >= tooOld && !slow:
			ctx, cancel := context.WithTimeout(ctx, freshen)
			defer cancel()
			c = l.wait(ctx, c, v, find)
		case age >= every:
			l.want(v, 0)
		}
		switch {
		case slow:
			return c, errSlow()
		case errors.Is(l.failed, idle.ErrClosed):
			return nil, l.failed
		}
		return c, l.failed
	}
	if errors.Is(l.failed, idle.ErrClosed) {
		return nil, l.failed
	}
	switch c = l.wait(ctx, nil, v, find); {
	case c != nil:
		return c, nil
	case l.failed != nil:
		return nil, l.failed
	}
	return nil, errSlow()
}

// wait waits for another census than c, and returns the newest. That is c, which may be nil, if
// none could be taken, or if ctx is done. l.mu must be held, but is not while it waits.
func (l *look) wait(ctx context.Context, c *census, v view, find func() (*census, view)) *census {
	l.want(v, 1)
	defer l.forgo(v)
	for {
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if now, _ := find(); now != nil && now != c || l.failed != nil || ctx.Err() != nil {
			return cmp.Or(now, c)
		}
	}
}

func errSlow() error {
	return &refusal{http.StatusServiceUnavailable, fmt.Sprintf("the census has not finished within %v; perhaps an event loop is blocked, or others look at many lists", patience)}
}

// want asks for a census, for which waiting more requests wait. l.mu must be held.
func (l *look) want(v view, waiting int) {
	l.wanted[v] += waiting
	if !l.running {
		l.running = true
		go l.run()
	}
}

// forgo takes back a request for a census. l.mu must be held.
func (l *look) forgo(v view) {
	if l.wanted[v]--; l.wanted[v] <= 0 {
		delete(l.wanted, v)
	}
}

// run takes the censuses that are wanted.
func (l *look) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.wanted) > 0 {
		pause := time.Until(l.begun.Add(every))
		l.mu.Unlock()
		time.Sleep(pause)
		l.mu.Lock()
		if v, ok := l.next(); ok {
			l.take(v)
		}
	}
	l.running = false
}

// next returns the most urgent view: one without a census, because requests wait for it, or else
// the one with the oldest. l.mu must be held.
func (l *look) next() (next view, ok bool) {
	age := func(v view) time.Duration {
		if c := l.find(v); c != nil {
			return time.Since(c.At)
		}
		return math.MaxInt64
	}
	for v := range l.wanted {
		if !ok || age(v) > age(next) {
			next, ok = v, true
		}
	}
	return next, ok
}

// take takes a census. l.mu must be held, but is not while the census is under way.
func (l *look) take(v view) {
	l.begun, l.taking = time.Now(), true
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	q := idle.Query{Sort: v.sort}
	if v.filtered {
		q.Phases = []string{v.phase}
	}
	taken, err := l.tracker.Census(ctx, q)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errSlow()
	}

	l.mu.Lock()
	l.failed, l.taking = err, false
	if err == nil {
		l.keep(&census{Census: taken, view: v})
	}
	maps.DeleteFunc(l.wanted, func(v view, waiting int) bool { return waiting == 0 }) // requests that still wait ask again
	close(l.news)
	l.news = make(chan struct{})
}

// keep keeps c for some time. l.mu must be held.
func (l *look) keep(c *census) {
	l.censuses = slices.DeleteFunc(l.censuses, func(old *census) bool { return old.view == c.view })
	l.censuses = append(l.censuses, c)
	if len(l.censuses) > maxCensuses {
		l.censuses = slices.Delete(l.censuses, 0, 1)
	}
	if c.Phases[""].Phase == nil && l.phases[""] == l.tracker.Initial() {
		delete(l.phases, "")
	}
	for name, p := range c.Phases {
		before, known := l.phases[name]
		if known && before != p.Phase {
			l.several[name] = true
		}
		if known || len(l.phases) < maxPhases {
			l.phases[name] = p.Phase
		}
	}
	time.AfterFunc(censusLasts, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.censuses = slices.DeleteFunc(l.censuses, func(old *census) bool { return old == c })
	})
}

// isSeveral reports whether censuses have met several phases of a name.
func (l *look) isSeveral(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.several[name]
}

// phase returns a phase by its name, or nil. Of several with the same name it is one in
// which the newest census has met connections, or else one in which an earlier one has.
//
// The initial phase is returned even without connections, unless it has no name and no connection
// has ended in it. Connections of adapters such as idlehttp are never in it, and its limits don't
// apply.
func (l *look) phase(name string) *idle.Phase {
	l.mu.Lock()
	p := l.phases[name]
	l.mu.Unlock()
	if p != nil || name != l.tracker.Policy().Name {
		return p
	}
	counts, _ := l.snapshot.take()
	for _, n := range counts.ByPhase[name] {
		if n > 0 {
			return l.tracker.Initial()
		}
	}
	return nil
}
