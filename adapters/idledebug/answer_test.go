package idledebug

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

func TestState(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		gone := s.track("gone")
		for i := range 3 {
			s.track(fmt.Sprint(i))
			time.Sleep(10 * time.Second)
		}
		gone.Stop() // before anybody looks
		get[state](s, "/api/state")
		time.Sleep(500 * time.Millisecond)
		st := get[state](s, "/api/state")
		if st.Counts.Live != 3 || st.Counts.Tracked != 4 || st.Ended["closed"] != 1 || st.Ended["IdleTimeout"] != 0 || len(st.Ended) != len(idle.Reasons())+1 {
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
		if len(st.Phases) != 1 || st.Phases[0].Name != "open" || !st.Phases[0].Initial || st.Phases[0].Live != 3 || fmt.Sprint(st.Phases[0].Limits) != "[{IdleTimeout 1m0s}]" {
			s.Errorf("phases %+v", st.Phases)
		}
		if len(st.Ends) != 1 || st.Ends[0].Label != "gone" || st.Ends[0].Reason != "closed" || st.Ends[0].Age < 29 {
			s.Errorf("ends %+v", st.Ends)
		}
		time.Sleep(time.Minute)
		st = get[state](s, "/api/state?ends=2")
		if st.Ended["IdleTimeout"] != 3 || st.Counts.Live != 0 || len(st.Ends) != 2 || st.Ends[0].Reason != "IdleTimeout" || st.Ends[0].Label != "2" || st.Lateness.Count != 3 {
			s.Errorf("%+v", st)
		}
	})
}

// TestCapacityAndDrain shows a capacity, what it refuses, and a drain.
func TestCapacityAndDrain(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		st := get[state](s, "/api/state")
		if st.Capacity != nil || st.Draining != nil {
			s.Errorf("capacity %+v, draining %+v", st.Capacity, st.Draining)
		}
		if st.Phases == nil || st.Ends == nil || st.Census.Idle == nil || get[list](s, "/api/connections").Rows == nil {
			s.Errorf("an empty list is null, which the scripts of the page don't expect: %+v", st)
		}
		if err := s.tracker().SetCapacity(idle.Capacity{MaxConns: 20, MinIdle: time.Hour}); err != nil {
			s.Fatal(err)
		}
		for i := range 20 {
			s.track(fmt.Sprint(i))
		}
		if err := s.tracker().Track(new(idle.Conn), "no room", hooks); !errors.Is(err, idle.ErrFull) {
			s.Fatal(err)
		}
		d, err := s.tracker().Drain(idle.Drain{Duration: 20 * time.Second})
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		st = get[state](s, "/api/state")
		if *st.Capacity != (capacity{20, 3600}) || st.Counts.Refused != 1 || st.Draining == nil || st.Draining.Left < 5 || st.Draining.Left > 15 || st.Draining.Left != 20-int(st.Ended["drain"]) {
			s.Errorf("%+v, %+v, %+v, %v", st.Capacity, st.Counts, st.Draining, st.Ended)
		}
		d.Cancel()
		if st := get[state](s, "/api/state"); st.Draining != nil {
			s.Errorf("after Cancel: %+v", st.Draining)
		}
	})
}

func TestConnections(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		other := s.phase(idle.Policy{Name: "other <b>", IdleTimeout: 30 * time.Second})
		first := &idle.Conn{}
		if err := s.tracker().Track(first, "first", &idle.Hooks{Expire: hooks.Expire, Unsent: func(any) int { return 1000 }}); err != nil {
			s.Fatal(err)
		}
		first.AwaitWrite()
		time.Sleep(time.Second)
		s.track("second")
		time.Sleep(time.Second)
		s.track("third").Enter(other)
		time.Sleep(time.Second)
		first.Touch()
		for target, want := range map[string]string{
			"":                        "second third first",
			"?sort=idle":              "second third first",
			"?sort=age":               "first second third",
			"?sort=end":               "third second first",
			"?sort=unsent&size=1":     "first",
			"?sort=age&size=2":        "first second",
			"?sort=age&size=2&page=2": "third",
			"?sort=age&size=2&page=3": "",
			"?page=500&size=500":      "",
			"?tracker=main&size=500":  "second third first",
		} {
			l := get[list](s, "/api/connections"+target)
			if l.labels() != want || l.Live != 3 || l.Listed != 3 || l.Pages != (3+l.Size-1)/l.Size || l.Rows == nil {
				s.Errorf("%s: %q, %+v; want %q", target, l.labels(), l, want)
			}
		}
		r := get[list](s, "/api/connections?sort=end").Rows[0]
		if r.Phase != "other <b>" || r.EndsBy != "IdleTimeout" || r.EndsIn+r.Idle < 30 || r.EndsIn+r.Idle > 30.1 || r.Idle < 0.8 {
			s.Errorf("%+v", r)
		}
		if r, c := get[list](s, "/api/connections?sort=unsent").Rows[0], get[state](s, "/api/state").Census; r.Unsent != 1000 || c.Unsent != 1000 || c.WithUnsent != 1 {
			s.Errorf("%+v, %+v", r, c)
		}
	})
}

func TestBadRequests(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for target, want := range map[string]string{
			"/api/state?ends=-1":         `ends is "-1"; it must be a whole number from 0 to 1024`,
			"/api/state?tracker=mian":    `tracker is "mian"; it must be one of "main"`,
			"/api/connections?sort=size": `sort is "size"; it must be "idle", "age", "end" or "unsent"`,
			"/api/connections?sort=":     `sort is ""`,
			"/api/connections?page=0":    `page is "0"`,
			"/api/connections?page=1e3":  `page is "1e3"`,
			"/api/connections?page=501":  `page is "501"`,
			"/api/connections?size=501":  `size is "501"; it must be a whole number from 1 to 500`,
			"/api/connections?size=%00":  `size is "\x00"`,
		} {
			s.wantError(request("GET", target), http.StatusBadRequest, want)
		}
		s.wantError(request("GET", "/api/nothing"), http.StatusNotFound, "nothing at this path")
		s.wantError(request("GET", "/../page.js"), http.StatusNotFound, "nothing at this path")
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
			_, text := s.serve(request("GET", "/api/connections?sort=idle"))
			if strings.ContainsAny(text, "<>\n\x00\x1b\u2028") {
				s.Errorf("%q is not escaped in %q", label, text)
			}
			l := get[list](s, "/api/connections")
			if got := l.Rows[0].Label; got != want {
				s.Errorf("%q is shown as %q, want %q", label, got, want)
			}
			c.Stop()
			time.Sleep(census.Every)
		}
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
		if l := get[list](s, "/api/connections?tracker=web+%3C1%3E"); l.Live != 0 || len(l.Rows) != 0 {
			s.Errorf("%+v", l)
		}
	}, "web <1>", "chat")
}

// TestPhases has an initial phase that has no name and no connection, as a listener of idlehttp
// has. It isn't shown until it's used.
func TestPhases(t *testing.T) {
	unnamed := func(opts *idle.Options) (*idle.Tracker, error) {
		return idle.New(idle.Policy{IdleTimeout: time.Minute}, opts)
	}
	withTrackers(t, Options{}, unnamed, func(s *site) {
		s.track("a").Enter(s.phase(idle.Policy{Name: "keep-alive", IdleTimeout: 30 * time.Second}))
		want := func(want string) {
			s.Helper()
			time.Sleep(census.Every)
			got := ""
			for _, p := range get[state](s, "/api/state").Phases {
				got += fmt.Sprintf("%q %v %d %v %v;", p.Name, p.Initial, p.Live, p.Ended, p.Limits)
			}
			if got != want {
				s.Errorf("phases are %s, want %s", got, want)
			}
		}
		want(`"keep-alive" false 1 map[] [{IdleTimeout 30s}];`)
		c := s.track("b")
		want(`"" true 1 map[] [{IdleTimeout 1m0s}];"keep-alive" false 1 map[] [{IdleTimeout 30s}];`)
		c.Stop()
		want(`"keep-alive" false 1 map[] [{IdleTimeout 30s}];`)
		s.track("c")
		time.Sleep(70 * time.Second)
		want(`"" true 0 map[IdleTimeout:1] [{IdleTimeout 1m0s}];"keep-alive" false 0 map[IdleTimeout:1] [];`)
	})
}

// TestLimits has every field of a policy but its name among the limits.
func TestLimits(t *testing.T) {
	full := idle.Policy{
		Name: "name", NoInterrupt: true, ExplicitUse: true,
		IdleTimeout: time.Minute, ReadTimeout: time.Second, WriteTimeout: 1500 * time.Millisecond, PhaseTimeout: 10 * time.Minute,
		MaxAge: 90 * time.Minute, MaxAgeJitter: time.Hour, MaxAgeGrace: 30 * time.Second,
		Heartbeat:   idle.Heartbeat{Interval: time.Second, Timeout: 2 * time.Second, Misses: 2, Passive: true, Jitter: 3 * time.Second},
		MinReadRate: idle.Rate{BytesPerSecond: 100, Grace: 1500 * time.Millisecond}, MinWriteRate: idle.Rate{BytesPerSecond: 200, Grace: 5 * time.Second},
	}
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s isn't set", v.Type().Field(i).Name)
		}
	}
	want := []limit{
		{"NoInterrupt", "true"}, {"ExplicitUse", "true"},
		{"IdleTimeout", "1m0s"}, {"ReadTimeout", "1s"}, {"WriteTimeout", "1.5s"}, {"PhaseTimeout", "10m0s"},
		{"MaxAge", "1h30m0s"}, {"MaxAgeJitter", "1h0m0s"}, {"MaxAgeGrace", "30s"},
		{"Heartbeat", "Interval 1s, Timeout 2s, Misses 2, Passive true, Jitter 3s"},
		{"MinReadRate", "BytesPerSecond 100, Grace 1.5s"}, {"MinWriteRate", "BytesPerSecond 200, Grace 5s"},
	}
	withSite(t, Options{}, func(s *site) {
		if got := limitsOf(s.tracker(), full); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestOneName: a limit of an adapter has the name that its user has set, wherever it is shown.
func TestOneName(t *testing.T) {
	setting := func(phase string, r idle.Reason) string {
		return map[string]string{"header phase": "HeaderTimeout", "header max_age": "Oldest"}[phase+" "+r.String()]
	}
	phased := func(opts *idle.Options) (*idle.Tracker, error) { return idle.NewPhased(opts, setting) }
	withTrackers(t, Options{}, phased, func(s *site) {
		s.track("a").Enter(s.phase(idle.Policy{Name: "header", PhaseTimeout: 10 * time.Second, MaxAge: time.Hour}))
		get[state](s, "/api/state")
		if r := get[list](s, "/api/connections").Rows[0]; r.EndsBy != "HeaderTimeout" {
			s.Errorf("%+v", r)
		}
		if p := get[state](s, "/api/state").Phases[0]; fmt.Sprint(p.Limits) != "[{HeaderTimeout 10s} {Oldest 1h0m0s}]" {
			s.Errorf("%+v", p)
		}
		time.Sleep(12 * time.Second)
		st := get[state](s, "/api/state")
		if st.Ended["HeaderTimeout"] != 1 || st.Phases[0].Ended["HeaderTimeout"] != 1 || st.Ends[0].Reason != "HeaderTimeout" {
			s.Errorf("%+v", st)
		}
	})
}

// TestManyConnections lists no more than maxListed.
func TestManyConnections(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for i := range 3 * maxListed {
			s.track(fmt.Sprint(i))
		}
		if l := get[list](s, "/api/connections?page=25"); len(l.Rows) != 20 || l.Listed != maxListed || l.Live != 3*maxListed || l.Pages != 25 {
			s.Errorf("%d rows, %d of %d on %d pages", len(l.Rows), l.Listed, l.Live, l.Pages)
		}
	})
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
			s.h.ServeHTTP(w, request("GET", target))
			if w.headers != 1 {
				s.Errorf("%s: the header is written %d times", target, w.headers)
			}
		}
	})
}

// TestClosed closes a tracker before and after somebody has looked.
func TestClosed(t *testing.T) {
	for _, looked := range []bool{false, true} {
		withSite(t, Options{}, func(s *site) {
			s.track("a")
			if looked {
				get[state](s, "/api/state")
				time.Sleep(snapshotLasts)
			}
			s.tracker().Close()
			for range 3 {
				begun := time.Now()
				st := get[state](s, "/api/state")
				if !st.Closed || st.Census != nil || !strings.Contains(st.CensusError, "closed") || st.Counts.Tracked != 1 || st.Counts.Live != 0 || st.Ended["closed"] != 0 || st.Phases[0].Live != 0 || time.Since(begun) > 0 {
					s.Errorf("after %v: %+v", time.Since(begun), st)
				}
				s.wantError(request("GET", "/api/connections"), http.StatusConflict, "the tracker is closed")
				time.Sleep(census.Every)
			}
		})
	}
}
