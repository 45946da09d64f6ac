package idledebug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestForeignIDs uses ids of one tracker at another one, and after a restart.
func TestForeignIDs(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}
		conns := map[string]*idle.Conn{}
		for name, tracker := range s.trackers {
			conns[name] = &idle.Conn{}
			if err := tracker.Track(conns[name], name, hooks); err != nil {
				s.Fatal(err)
			}
		}
		row := get[list](s, "/api/connections?tracker=a").Rows[0]
		get[list](s, "/api/connections?tracker=b")
		s.post("/api/drain?tracker=a", `{"duration": "50s"}`)
		s.post("/api/drain?tracker=b", `{"duration": "50s"}`)
		o := get[state](s, "/api/state?tracker=a").Operations[0]

		end, cancel := fmt.Sprintf(`{"id": %s}`, inJSON(s, row.ID)), fmt.Sprintf(`{"id": %s, "do": "cancel"}`, inJSON(s, o.ID))
		foreign := func() {
			s.Helper()
			s.wantError(request("POST", "/api/end?tracker=b", end), http.StatusGone, "look again")
			s.wantError(request("POST", "/api/operation?tracker=b", cancel), http.StatusNotFound, "no operation")
		}
		foreign()
		before := s.h
		var err error
		if s.h, err = New(s.trackers, &Options{Steer: true}); err != nil {
			s.Fatal(err)
		}
		get[list](s, "/api/connections?tracker=b")
		get[state](s, "/api/state?tracker=b")
		foreign()
		time.Sleep(time.Second)
		if !conns["a"].Live() || !conns["b"].Live() || len(s.trackers["b"].Operations()) != 1 {
			s.Error("an id of another tracker or Handler has done something")
		}
		s.h = before
		s.post("/api/operation?tracker=a", cancel)
		s.post("/api/end?tracker=a", end)
		time.Sleep(time.Second)
		if conns["a"].Live() || len(s.trackers["a"].Operations()) != 0 {
			s.Error("an id has done nothing")
		}
	}, "a", "b")
}

func inJSON(s *site, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// TestRowsLast has ten people look at ten pages each, and one ends a connection after
// most of a minute.
func TestRowsLast(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		for i := range 200 {
			s.track(fmt.Sprint(i))
		}
		id := get[list](s, "/api/connections?size=20").Rows[0].ID
		for begun := time.Now(); time.Since(begun) < rowsLast-2*time.Second; time.Sleep(1001 * time.Millisecond) {
			for p := range 10 {
				get[list](s, fmt.Sprintf("/api/connections?size=20&page=%d", p+1))
			}
		}
		s.post("/api/end", fmt.Sprintf(`{"id": %q}`, id))
	})
}
