package idledebug

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestPhaseOfSameName has an application make a new phase of a name, as some do when their
// configuration changes.
func TestPhaseOfSameName(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		c := s.track("a")
		var phase *idle.Phase
		for i := range 3 {
			var err error
			if phase, err = s.tracker().Phase(idle.Policy{Name: "chat", IdleTimeout: time.Duration(20+i) * time.Second}); err != nil {
				s.Fatal(err)
			}
			c.Enter(phase)
			if p := s.recount().Phases[1]; p.Name != "chat" || fmt.Sprint(p.Rest) != fmt.Sprintf("[{IdleTimeout %ds}]", 20+i) {
				s.Errorf("the phase is shown as %+v; its IdleTimeout is %d s", p, 20+i)
			}
		}
		s.post("/api/limits", `{"phase": "chat", "limits": {"IdleTimeout": "5s"}}`)
		if got := phase.Policy().IdleTimeout; got != 5*time.Second {
			s.Errorf("IdleTimeout is %v after a change to 5 s", got)
		}
		c.Stop()
		if st := s.recount(); len(st.Phases) != 2 || fmt.Sprint(st.Phases[1].Rest) != "[{IdleTimeout 5s}]" {
			s.Errorf("without a connection, phases are %+v", st.Phases)
		}
	})
}

// TestUnusedPhase has an initial phase that has no name and no connection, as a listener of
// idlehttp has. It is neither shown nor changed.
func TestUnusedPhase(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		var err error
		if s.trackers["main"], err = idle.New(idle.Policy{IdleTimeout: time.Minute}, nil); err != nil {
			s.Fatal(err)
		}
		defer s.tracker().Close()
		if s.h, err = New(s.trackers, &Options{Steer: true}); err != nil {
			s.Fatal(err)
		}
		named, err := s.tracker().Phase(idle.Policy{Name: "keep-alive", IdleTimeout: time.Minute})
		if err != nil {
			s.Fatal(err)
		}
		s.track("a").Enter(named)
		shown := func() (names []string) {
			for _, p := range s.recount().Phases {
				names = append(names, p.Name)
			}
			return names
		}
		change := `{"phase": "", "limits": {"IdleTimeout": "30s"}}`
		if got := shown(); fmt.Sprintf("%q", got) != `["keep-alive"]` {
			s.Errorf("phases are %q", got)
		}
		s.wantError(request("POST", "/api/limits", change), http.StatusBadRequest, `phase is ""`)
		c := s.track("b")
		if got := shown(); fmt.Sprintf("%q", got) != `["" "keep-alive"]` {
			s.Errorf("with a connection, phases are %q", got)
		}
		s.post("/api/limits", change)
		c.Stop()
		if got := shown(); fmt.Sprintf("%q", got) != `["keep-alive"]` {
			s.Errorf("without a connection, phases are %q", got)
		}
		s.track("c")
		time.Sleep(40 * time.Second)
		if got := shown(); fmt.Sprintf("%q", got) != `["" "keep-alive"]` {
			s.Errorf("after one has timed out, phases are %q", got)
		}
		s.post("/api/limits", change)
	})
}

// recount returns the state with a census of what is there now.
func (s *site) recount() state {
	time.Sleep(every) // until the last census is old
	get[state](s, "/api/state")
	time.Sleep(every + every/2)
	return get[state](s, "/api/state")
}

// TestLimitsSayWhatChanged has one phase of a name, and then several.
func TestLimitsSayWhatChanged(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		change := func(name, want string) {
			s.Helper()
			_, text := s.serve(request("POST", "/api/limits", fmt.Sprintf(`{"phase": %q, "limits": {"IdleTimeout": "50s"}}`, name)))
			if want = fmt.Sprintf(`{"changed":{"phases":1,"name":%q,%s},"limits":[{"name":"IdleTimeout","value":"50s"}]}`, name, want); text != want {
				s.Errorf("%s, want %s", text, want)
			}
		}
		change("open", `"initial":true,"several":false`)
		for i := range 2 {
			phase, err := s.tracker().Phase(idle.Policy{Name: "chat", IdleTimeout: time.Minute})
			if err != nil {
				s.Fatal(err)
			}
			c := s.track("a")
			c.Enter(phase)
			s.recount()
			change("chat", fmt.Sprintf(`"initial":false,"several":%v`, i > 0))
			c.Stop()
		}
	})
}
