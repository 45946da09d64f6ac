package idledebug

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
)

// TestCensusIsShared has a hundred clients look at once, and again within the second.
func TestCensusIsShared(t *testing.T) {
	described := map[any]int{} // how often each label was asked for, by the visit
	label := func(owner any) string {
		described[owner]++
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
			for i := range 100 {
				wg.Go(func() {
					l, st := get[list](s, "/api/connections?sort="+[]string{"idle", "age", "end", "unsent"}[i%4]), get[state](s, "/api/state")
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
		for owner, n := range described {
			if n != 1 {
				s.Errorf("%v was described %d times", owner, n)
			}
		}
		time.Sleep(10 * time.Second)
		if again := look(); again.Sub(first) != 10500*time.Millisecond {
			s.Errorf("the next census was %v after the first one, or nobody wanted it", again.Sub(first))
		}
	})
}

// TestBlockedLoop has an event loop that does nothing, so that a census can't finish. The
// answer comes all the same, and says so.
func TestBlockedLoop(t *testing.T) {
	for _, before := range []bool{false, true} {
		withSite(t, Options{}, func(s *site) {
			if before {
				s.track("a")
				get[state](s, "/api/state")
				time.Sleep(census.Every)
			}
			if _, err := s.tracker().NewShard(func(func()) error { return nil }); err != nil {
				s.Fatal(err)
			}
			for _, patience := range []time.Duration{census.Patience, 0} {
				begun := time.Now()
				st := get[state](s, "/api/state")
				if took := time.Since(begun); took != patience || (st.Census != nil) != before || !strings.Contains(st.CensusError, "event loop is blocked") {
					s.Errorf("after %v: %+v", took, st)
				}
			}
			if before {
				if l := get[list](s, "/api/connections"); l.labels() != "a" || time.Since(l.At) < census.Every {
					s.Errorf("%+v", l)
				}
			} else {
				s.wantError(request("GET", "/api/connections"), http.StatusServiceUnavailable, "event loop is blocked")
			}
		})
	}
}

// TestRequestEnds has a browser go away while its request waits.
func TestRequestEnds(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		if _, err := s.tracker().NewShard(func(func()) error { return nil }); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.Context())
		begun := time.Now()
		time.AfterFunc(census.Patience/2, cancel)
		s.serve(request("GET", "/api/state").WithContext(ctx))
		if took := time.Since(begun); took != census.Patience/2 {
			s.Errorf("the request took %v", took)
		}
	})
}
