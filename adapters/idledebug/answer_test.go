package idledebug

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

func TestState(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		gone, handed := s.track("gone"), s.track("handed over")
		for i := range 3 {
			s.track(fmt.Sprint(i))
			time.Sleep(10 * time.Second)
		}
		gone.Stop()
		handed.Release()
		get[state](s, "/api/state")
		time.Sleep(500 * time.Millisecond)
		st := get[state](s, "/api/state")
		if st.Counts.Live != 3 || st.Counts.Tracked != 5 || st.Ended["closed"] != 1 || st.Ended["released"] != 1 || st.Ended["IdleTimeout"] != 0 || len(st.Ended) != len(idle.Reasons())+2 {
			s.Errorf("counts %+v, ended %v", st.Counts, st.Ended)
		}
		if c := st.Census; c == nil || c.Live != 3 || c.Ending["1"] != 0 || c.Ending["10"] != 0 || c.Ending["60"] != 3 {
			s.Errorf("census %+v", c)
		}
		sum := uint64(0)
		for _, b := range st.Census.Idle {
			sum += b.Count
		}
		if sum != 3 || st.Census.Idle[0].Count == 0 {
			s.Errorf("buckets of idle time: %+v", st.Census.Idle)
		}
		if len(st.Phases) != 1 || st.Phases[0].Name != "open" || !st.Phases[0].Initial || st.Phases[0].Live != 3 || fmt.Sprint(st.Phases[0].Rest) != "[{IdleTimeout 1m0s}]" {
			s.Errorf("phases %+v", st.Phases)
		}
		if len(st.Ends) != 1 || st.Ends[0].Label != "gone" || st.Ends[0].Reason != "closed" || st.Ends[0].Age < 29 {
			s.Errorf("ends %+v", st.Ends)
		}
		time.Sleep(time.Minute)
		st = get[state](s, "/api/state?ends=2")
		if st.Ended["IdleTimeout"] != 3 || st.Counts.Live != 0 || len(st.Ends) != 2 || st.Ends[0].Reason != "idle" || st.Ends[0].Label != "2" || st.Lateness.Count != 3 {
			s.Errorf("%+v", st)
		}
	})
}

// TestStateIsShared: however many look, the tracker's counts and ends are copied a few
// times a second.
func TestStateIsShared(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		before := get[state](s, "/api/state")
		s.track("a").Stop()
		if st := get[state](s, "/api/state"); st.Counts != before.Counts || len(st.Ends) != 0 {
			s.Errorf("at the same time, counts are %+v and %+v", before.Counts, st.Counts)
		}
		time.Sleep(300 * time.Millisecond)
		if st := get[state](s, "/api/state"); st.Counts.Tracked != 1 || len(st.Ends) != 1 {
			s.Errorf("after 300 ms, counts are %+v", st.Counts)
		}
	})
}

// TestPressure shows limits at rest and in force.
func TestPressure(t *testing.T) {
	var f *pressure.Follower
	withSite(t, Options{Steer: true, Pressure: func(string) *pressure.Follower { return f }}, func(s *site) {
		s.track("a")
		if st := get[state](s, "/api/state"); st.Pressure != 0 {
			s.Errorf("pressure %v, but nothing is followed", st.Pressure)
		}
		var err error
		f, err = pressure.Follow(s.tracker(), pressure.Config{Read: func() (float64, error) { return 0.5, nil }, Policy: idle.Policy{IdleTimeout: 10 * time.Second}})
		if err != nil {
			s.Fatal(err)
		}
		if err := s.tracker().SetCapacity(idle.Capacity{MaxConns: 7, MinIdle: time.Second}); err != nil {
			s.Fatal(err)
		}
		st := get[state](s, "/api/state")
		if p := st.Phases[0]; st.Pressure != 0.5 || fmt.Sprint(p.Rest, p.InForce) != "[{IdleTimeout 1m0s}] [{IdleTimeout 35s}]" || st.Capacity.MaxConns != 7 || st.Capacity.MinIdle != 1 {
			s.Errorf("pressure %v, %+v, capacity %+v", st.Pressure, p, st.Capacity)
		}
	})
}

func TestConnections(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		other, err := s.tracker().Phase(idle.Policy{Name: "other <b>", IdleTimeout: 30 * time.Second})
		if err != nil {
			s.Fatal(err)
		}
		first := s.track("first")
		time.Sleep(time.Second)
		s.track("second")
		time.Sleep(time.Second)
		s.track("third").Enter(other)
		time.Sleep(time.Second)
		first.Touch()
		for target, want := range map[string]string{
			"":                         "second third first",
			"?sort=idle":               "second third first",
			"?sort=age":                "first second third",
			"?sort=end":                "third second first",
			"?sort=age&size=2":         "first second",
			"?sort=age&size=2&page=2":  "third",
			"?sort=age&size=2&page=3":  "",
			"?page=100000000":          "",
			"?phase=other+%3Cb%3E":     "third",
			"?phase=open&sort=age":     "first second",
			"?phase=open&size=1000":    "second first",
			"?tracker=main&phase=open": "second first",
		} {
			l := get[list](s, "/api/connections"+target)
			total := 3
			if strings.Contains(target, "phase=open") {
				total = 2
			} else if strings.Contains(target, "phase=") {
				total = 1
			}
			if l.labels() != want || l.Total != total || l.Pages != (total+l.Size-1)/l.Size || l.Rows == nil {
				s.Errorf("%s: %q of %d, %d pages; want %q of %d", target, l.labels(), l.Total, l.Pages, want, total)
			}
		}
		r := get[list](s, "/api/connections?sort=end").Rows[0]
		if r.Phase != "other <b>" || r.EndsBy != "IdleTimeout" || r.Next != "end" || r.EndsIn+r.Idle < 30 || r.EndsIn+r.Idle > 30.1 || r.Idle < 1 {
			s.Errorf("%+v", r)
		}
	})
}

func TestBadRequests(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		for target, want := range map[string]string{
			"/api/state?ends=-1":              `ends is "-1"; it must be a whole number from 0 to 1024`,
			"/api/state?tracker=mian":         `tracker is "mian"; it must be one of "main"`,
			"/api/connections?sort=size":      `sort is "size"; it must be "idle", "age", "end", "misses" or "unsent"`,
			"/api/connections?sort=":          `sort is ""`,
			"/api/connections?page=0":         `page is "0"`,
			"/api/connections?page=1e3":       `page is "1e3"`,
			"/api/connections?page=100000001": `page is "100000001"`,
			"/api/connections?size=1001":      `size is "1001"; it must be a whole number from 1 to 1000`,
			"/api/connections?size=%00":       `size is "\x00"`,
			"/api/connections?phase=none":     `phase is "none"`,
		} {
			s.wantError(request("GET", target, ""), http.StatusBadRequest, want)
		}
		s.wantError(request("GET", "/api/nothing", ""), http.StatusNotFound, "nothing at this path")
		s.wantError(request("GET", "/../page.js", ""), http.StatusNotFound, "nothing at this path")
		for _, c := range []struct {
			target, body string
			status       int
			want         string
		}{
			{"drain", ``, 400, "the body must be a JSON object: EOF"},
			{"drain", `null`, 400, "the body must be a JSON object"},
			{"drain", `[{}]`, 400, "the body must be a JSON object"},
			{"drain", `{"duration": "1s"`, 400, "the body must be a JSON object: EOF"},
			{"drain", `{}`, 400, `none of duration, rate and now is set; to end all connections at once, set now to true`},
			{"drain", `{"duration": "0s", "now": false}`, 400, "none of duration, rate and now is set"},
			{"drain", `{"now": true, "rate": 5}`, 400, "set only one of duration, rate and now"},
			{"drain", `{"Duration": "1s"}`, 400, `unknown field "Duration"; it must be one of "close_delay", "duration", "force_after", "now", "rate"`},
			{"drain", `{"duration": "1s", "duration": "2s"}`, 400, `duration is there twice`},
			{"drain", `{"duration": 5}`, 400, `duration is 5; it must be a text`},
			{"drain", `{"duration": [` + strings.Repeat("1,", 1000) + `1]}`, 400, `1,1...; it must be a text`},
			{"drain", `{"rate": "5"}`, 400, `rate is "5"; it must be a number`},
			{"drain", `{"now": 1}`, 400, `now is 1; it must be true or false`},
			{"drain", `{"duration": "99999999h"}`, 400, `duration is "99999999h"; it must be at most 2562047h, some 292 years`},
			{"shed", `{"max": 1.5}`, 400, `max is 1.5; it must be a whole number`},
			{"shed", `{"phase": 5}`, 400, `phase is 5; it must be a text`},
			{"end", `{"id": 5}`, 400, `id is 5; it must be a text`},
			{"limits", `{"phase": "open", "limits": {"IdleTimeout": 5}}`, 400, `limits is {"IdleTimeout": 5}; it must be an object of texts`},
			{"limits", `{"phase": "open", "limits": {"IdleTimeout": "99999999h"}}`, 400, `IdleTimeout is "99999999h"; it must be at most 2562047h`},
			{"drain", `{"ovr": "1s"}`, 400, `unknown field "ovr"`},
			{"drain", `{} {}`, 400, "more than one JSON object"},
			{"drain", `{"duration": "` + strings.Repeat("1", maxBody) + `"}`, 400, "too large"},
			{"drain", `{"duration": "soon"}`, 400, `duration is "soon"; it must be a duration`},
			{"drain", `{"duration": "-1s"}`, 400, "Drain.Duration is -1s"},
			{"drain", `{"duration": "1s", "rate": 5}`, 400, "set only one"},
			{"shed", `{}`, 400, "to end all, drain"},
			{"shed", `{"fraction": 2}`, 400, "Shed.Fraction is 2"},
			{"shed", `{"max": 1, "fraction": 0.5}`, 400, "set only one"},
			{"shed", `{"phase": "none"}`, 400, `phase is "none"`},
			{"shed", `{"max": 1, "cause": "` + strings.Repeat("x", 101) + `"}`, 400, "at most 100 bytes"},
			{"operation", `{"id": "9", "do": "pause"}`, 404, `id is "9"`},
			{"end", `{"id": "x"}`, 410, `id is "x"`},
			{"end", `{"id": "9"}`, 410, "look again"},
			{"limits", `{"limits": {"IdleTimeout": "1s"}}`, 400, "phase or limits is missing"},
			{"limits", `{"phase": "open"}`, 400, "phase or limits is missing"},
			{"limits", `{"phase": "open", "limits": {"Idle": "1s"}}`, 400, `limits is "Idle"; it must be a field of idle.Policy`},
			{"limits", `{"phase": "open", "limits": {"IdleTimeout": "1"}}`, 400, `IdleTimeout is "1"; it must be a duration`},
			{"limits", `{"phase": "open", "limits": {"Heartbeat.Misses": "many"}}`, 400, `Heartbeat.Misses is "many"`},
			{"limits", `{"phase": "open", "limits": {"NoInterrupt": "so"}}`, 400, `NoInterrupt is "so"`},
			{"limits", `{"phase": "open", "limits": {"IdleTimeout": "-1s"}}`, 400, "IdleTimeout is -1s"},
			{"limits", `{"phase": "open", "limits": {"IdleTimeout": ""}}`, 400, "idle: "},
		} {
			s.wantError(request("POST", "/api/"+c.target, c.body), c.status, c.want)
		}
		if st := s.tracker().Stats(); st.Live != 1 || len(s.tracker().Operations()) != 0 {
			s.Errorf("a bad request did something: %+v", st)
		}
	})
}

// TestHostileLabels has labels that would do harm on a careless page.
func TestHostileLabels(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for label, want := range map[string]string{
			"</script><script>alert(1)</script>": "</script><script>alert(1)</script>",
			"a\nb\x00\x1b[31m":                   "a\nb\x00\x1b[31m",
			"\u202eevil\u2028":                   "\u202eevil\u2028",
			"\xff\xfe":                           "\ufffd\ufffd",
			strings.Repeat("x", 1000):            strings.Repeat("x", 128),
		} {
			c := s.track(label)
			_, text := s.serve(request("GET", "/api/connections?sort=idle", ""))
			if strings.ContainsAny(text, "<>\n\x00\x1b\u2028") {
				s.Errorf("%q is not escaped in %q", label, text)
			}
			l := get[list](s, "/api/connections")
			if got := l.Rows[0].Label; got != want {
				s.Errorf("%q is shown as %q, want %q", label, got, want)
			}
			c.Stop()
			time.Sleep(censusLasts + time.Second)
		}
	})
}

// TestLabelPanics has a function that panics. Its connections are shown all the same.
func TestLabelPanics(t *testing.T) {
	withLabels(t, Options{}, func(owner any) string { panic(owner) }, func(s *site) {
		s.track("a").Stop()
		s.track("b")
		get[state](s, "/api/state")
		s.track("c").Stop()
		l, st := get[list](s, "/api/connections"), get[state](s, "/api/state")
		if len(l.Rows) != 1 || l.Rows[0].Label != "" || st.Counts.Live != 1 {
			s.Errorf("%+v, %+v", l, st.Counts)
		}
	})
}

func TestClosedTracker(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		s.tracker().Close()
		st := get[state](s, "/api/state")
		if !st.Closed || st.Census != nil || st.Counts.Tracked != 1 || !strings.Contains(st.CensusError, "closed") {
			s.Errorf("%+v", st)
		}
		s.wantError(request("GET", "/api/connections", ""), http.StatusConflict, "the tracker is closed")
		s.wantError(request("POST", "/api/drain", `{"now": true}`), http.StatusConflict, "the tracker is closed")
	})
}

func TestTwoTrackers(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		s.track("a")
		st := get[state](s, "/api/state")
		if st.Tracker != "chat" || fmt.Sprint(st.Trackers) != "[chat web <1>]" || st.Counts.Live != 1 {
			s.Errorf("%+v", st)
		}
		if st := get[state](s, "/api/state?tracker=web+%3C1%3E"); st.Tracker != "web <1>" || st.Counts.Live != 0 {
			s.Errorf("%+v", st)
		}
		if l := get[list](s, "/api/connections?tracker=web+%3C1%3E"); l.Total != 0 || len(l.Rows) != 0 {
			s.Errorf("%+v", l)
		}
	}, "web <1>", "chat")
}

// TestDependencies keeps out what hinders the linker from dropping unused methods.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range strings.Fields(string(out)) {
		if p == "text/template" || p == "html/template" || p == "expvar" || p == "net/http/pprof" {
			t.Errorf("idledebug depends on %s", p)
		}
	}
}

// A goneClient is a ResponseWriter whose client has gone. It counts calls of WriteHeader.
type goneClient struct {
	*httptest.ResponseRecorder
	headers int
}

func (w *goneClient) WriteHeader(int) { w.headers++ }

func (w *goneClient) Write([]byte) (int, error) {
	w.headers = max(w.headers, 1)
	return 0, errors.New("write: broken pipe")
}

// TestClientGone: an answer is begun once, even if it cannot be written.
func TestClientGone(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for _, target := range []string{"/", "/page.js", "/api/state", "/api/connections", "/api/none"} {
			w := &goneClient{ResponseRecorder: httptest.NewRecorder()}
			s.h.ServeHTTP(w, request("GET", target, ""))
			if w.headers != 1 {
				s.Errorf("%s: the header is written %d times", target, w.headers)
			}
		}
	})
}

// TestClosedAfterLook closes a tracker after a census was taken.
func TestClosedAfterLook(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		get[list](s, "/api/connections")
		get[state](s, "/api/state")
		s.tracker().Close()
		time.Sleep(snapshotLasts)
		for range 3 {
			begun := time.Now()
			st := get[state](s, "/api/state")
			if !st.Closed || st.Census != nil || st.Counts.Live != 0 || st.Phases[0].Live != 0 || time.Since(begun) > 0 {
				s.Errorf("after %v: closed %v, census %+v, counts %+v, phases %+v", time.Since(begun), st.Closed, st.Census, st.Counts, st.Phases)
			}
			s.wantError(request("GET", "/api/connections", ""), http.StatusConflict, "the tracker is closed")
			time.Sleep(every + every/2)
		}
	})
}
