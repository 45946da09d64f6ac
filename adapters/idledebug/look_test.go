package idledebug

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestCensusIsShared has a hundred clients look at once, and again within the second.
func TestCensusIsShared(t *testing.T) {
	var described sync.Map // labels, and how often they were asked for
	label := func(owner any) string {
		n, _ := described.LoadOrStore(owner, new(int))
		*n.(*int)++ // each connection is described by one pass at a time
		return owner.(string)
	}
	withLabels(t, Options{}, label, func(s *site) {
		for i := range 5 {
			s.track(fmt.Sprint(i))
		}
		look := func() (at time.Time) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			seen := map[string]bool{}
			for range 100 {
				wg.Go(func() {
					l, st := get[list](s, "/api/connections"), get[state](s, "/api/state")
					mu.Lock()
					defer mu.Unlock()
					seen[l.At.String()], seen[st.Census.At.String()] = true, true
					at = l.At
				})
			}
			wg.Wait()
			if len(seen) != 1 {
				s.Errorf("%d censuses: %v", len(seen), seen)
			}
			return at
		}
		first := look()
		time.Sleep(500 * time.Millisecond)
		if again := look(); again != first {
			s.Error("there was another census within a second")
		}
		time.Sleep(time.Second)
		if at := s.newest(); !at.Equal(first) {
			s.Error("there was another census though nobody wanted one")
		}
		described.Range(func(owner, n any) bool {
			if *n.(*int) != 1 {
				s.Errorf("%v was described %d times", owner, *n.(*int))
			}
			return true
		})
		get[state](s, "/api/state") // has the next one taken
		time.Sleep(500 * time.Millisecond)
		if again := look(); again.Sub(first) < time.Second {
			s.Errorf("the next census was %v after the first one", again.Sub(first))
		}
	})
}

// TestNobodyLooks has nothing run and nothing kept when nobody looks any more.
func TestNobodyLooks(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		if l := s.rests(); l != "" || s.keeps() != 0 {
			s.Errorf("before anybody looked: %s", l)
		}
		for _, by := range []string{"idle", "age", "end", "misses"} {
			get[list](s, "/api/connections?sort="+by)
		}
		if s.keeps() != 8 { // a census and a page of each
			s.Errorf("%d censuses and pages are kept", s.keeps())
		}
		time.Sleep(2 * time.Minute)
		if l := s.rests(); l != "" || s.keeps() != 0 {
			s.Errorf("%s, %d censuses and pages are kept", l, s.keeps())
		}
	})
}

// rests says what goes on though nobody looks.
func (s *site) rests() string {
	l := s.h.looks[s.h.names[0]]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running || len(l.wanted) > 0 {
		return fmt.Sprintf("running: %v, wanted: %v", l.running, l.wanted)
	}
	return ""
}

// keeps returns how many censuses and pages are kept.
func (s *site) keeps() int {
	l := s.h.looks[s.h.names[0]]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	return len(l.censuses) + len(l.listed.batches)
}

// TestBlockedLoop has an event loop that does nothing, so that a census cannot finish. The
// answer comes all the same, and says so.
func TestBlockedLoop(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		shard, err := s.tracker().NewShard(func(func()) error { return nil })
		if err != nil {
			s.Fatal(err)
		}
		if err := shard.Track(&idle.Conn{}, "blocked", &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}); err != nil {
			s.Fatal(err)
		}
		begun := time.Now()
		st := get[state](s, "/api/state")
		if took := time.Since(begun); took > 2*patience || st.Census != nil || !strings.Contains(st.CensusError, "event loop is blocked") || st.Counts.Live != 1 {
			s.Errorf("after %v: %+v", took, st)
		}
		s.wantError(request("GET", "/api/connections", ""), http.StatusServiceUnavailable, "event loop is blocked")
	})
}

// TestRequestEnds has a browser go away while its request waits.
func TestRequestEnds(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		if _, err := s.tracker().NewShard(func(func()) error { return nil }); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.Context())
		begun := time.Now()
		time.AfterFunc(time.Second, cancel)
		s.serve(request("GET", "/api/state", "").WithContext(ctx))
		if took := time.Since(begun); took > time.Second {
			s.Errorf("the request took %v", took)
		}
	})
}

// TestManyLists has more lists asked for at once than can be taken in time. The others
// are told, and the page goes on.
func TestManyLists(t *testing.T) {
	const lists = 20
	withSite(t, Options{}, func(s *site) {
		for i := range lists {
			phase, err := s.tracker().Phase(idle.Policy{Name: fmt.Sprint(i)})
			if err != nil {
				s.Fatal(err)
			}
			s.track("a").Enter(phase)
		}
		get[state](s, "/api/state") // which sees the phases
		var wg sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for i := range lists {
			wg.Go(func() {
				status, _ := s.serve(request("GET", fmt.Sprintf("/api/connections?phase=%d", i), ""))
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
			})
		}
		wg.Wait()
		if ok := statuses[http.StatusOK]; ok < 2 || ok > 4 || ok+statuses[http.StatusServiceUnavailable] != lists {
			s.Errorf("answers by status: %v", statuses)
		}
		time.Sleep(2 * time.Second)
		if l := s.rests(); l != "" {
			s.Error(l)
		}
		get[list](s, "/api/connections?phase=7")
	})
}

// newest returns when the newest census was taken.
func (s *site) newest() time.Time {
	l := s.h.looks[s.h.names[0]]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.censuses[len(l.censuses)-1].At
}

// TestClicking has somebody change the order in quick succession, while somebody else
// looks at another list. What is no longer looked at, and what has only to be refreshed, do
// not delay what somebody waits for.
func TestClicking(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		s.track("a")
		get[list](s, "/api/connections")          // has the first census
		get[list](s, "/api/connections?sort=age") // has one a second later
		time.Sleep(500 * time.Millisecond)
		get[list](s, "/api/connections") // would have the next one
		for _, by := range []string{"end", "misses"} {
			ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
			s.serve(request("GET", "/api/connections?sort="+by, "").WithContext(ctx))
			cancel()
		}
		begun := time.Now()
		get[list](s, "/api/connections?phase=open")
		if took := time.Since(begun); took > 350*time.Millisecond {
			s.Errorf("it took %v", took)
		}
	})
}

// TestSlowPolls looks every five seconds. Each look has a census of its own.
func TestSlowPolls(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for range 3 {
			begun := time.Now()
			st, l := get[state](s, "/api/state"), get[list](s, "/api/connections")
			if st.Census.Age > 1 || time.Since(l.At) > time.Second {
				s.Errorf("the census is %v s old, the list %v", st.Census.Age, time.Since(l.At))
			}
			if took := time.Since(begun); took > time.Second {
				s.Errorf("a look took %v", took)
			}
			s.track("a")
			time.Sleep(5 * time.Second)
		}
		if _, err := s.tracker().NewShard(func(func()) error { return nil }); err != nil { // a loop that is blocked
			s.Fatal(err)
		}
		begun := time.Now()
		if st := get[state](s, "/api/state"); st.Census == nil || time.Since(begun) != time.Second {
			s.Errorf("after %v: %+v", time.Since(begun), st.Census)
		}
	})
}
