package idledebug

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
)

// TestLooksAreShared: however many look, there is a census every second at most, which asks for
// each label once, and the tracker's counts and ends are copied a few times a second.
func TestLooksAreShared(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for range 5 {
			s.track("a")
		}
		first := get[state](s, "/api/state")
		s.track("b").Stop()
		labels := s.labels
		for _, later := range []time.Duration{0, 300 * time.Millisecond, 10 * time.Second} {
			time.Sleep(later)
			st := get[state](s, "/api/state")
			if fresh := later > 0; (st.Counts != first.Counts) != fresh || (len(st.Ends) == 1) != fresh {
				s.Errorf("after %v: %+v, %+v", later, st.Counts, st.Ends)
			}
			for by := range orders {
				if l := get[list](s, "/api/connections?sort="+by); l.At != st.Census.At || (l.At == first.Census.At) != (later < time.Second) {
					s.Errorf("after %v: a list of %v and counts of %v, at first %v", later, l.At, st.Census.At, first.Census.At)
				}
			}
		}
		if n := s.labels - labels; n != 5 {
			s.Errorf("the second census asked for %d labels of 5", n)
		}
	})
}

// TestBlockedLoop has an event loop that does nothing. The answer comes all the same, and says so. It
// isn't waited for when the browser goes away.
func TestBlockedLoop(t *testing.T) {
	for _, before := range []bool{false, true} {
		withSite(t, Options{}, func(s *site) {
			if before {
				s.track("a")
				get[state](s, "/api/state")
				time.Sleep(census.Every)
			}
			s.block()
			ctx, cancel := context.WithCancel(s.Context())
			begun := time.Now()
			time.AfterFunc(census.Patience/2, cancel)
			s.serve(request("GET", "/api/state").WithContext(ctx))
			if took := time.Since(begun); took != census.Patience/2 {
				s.Errorf("the request took %v", took)
			}
			for _, patience := range []time.Duration{census.Patience / 2, 0} {
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
