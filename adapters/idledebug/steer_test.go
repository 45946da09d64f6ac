package idledebug

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestDrain(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		for i := range 10 {
			s.track(fmt.Sprint(i))
		}
		s.post("/api/drain", `{"duration": "10s"}`)
		time.Sleep(4500 * time.Millisecond)
		o := get[state](s, "/api/state").Operations
		if len(o) != 1 || o[0].Kind != "drain" || o[0].Finished || o[0].Met != 10 || o[0].Ended < 3 || o[0].Left > 7 {
			s.Fatalf("%+v", o)
		}
		s.wantError(request("POST", "/api/drain", `{"now": true}`), http.StatusBadRequest, "another one is under way")
		s.post("/api/operation", fmt.Sprintf(`{"id": %q, "do": "pause"}`, o[0].ID))
		time.Sleep(time.Second)
		paused := get[state](s, "/api/state").Operations[0]
		time.Sleep(10 * time.Second)
		if still := get[state](s, "/api/state").Operations[0]; !still.Paused || still.Ended != paused.Ended {
			s.Errorf("%+v, and ten seconds later %+v", paused, still)
		}
		s.wantError(request("POST", "/api/operation", fmt.Sprintf(`{"id": %q, "do": "stop"}`, o[0].ID)), http.StatusBadRequest, `do is "stop"`)
		s.post("/api/operation", fmt.Sprintf(`{"id": %q, "do": "resume"}`, o[0].ID))
		time.Sleep(10 * time.Second)
		st := get[state](s, "/api/state")
		if o := st.Operations; st.Ended["drain"] != 10 || len(o) != 1 || !o[0].Finished || o[0].Ended != 10 {
			s.Errorf("%v, %+v", st.Ended, st.Operations)
		}
	})
}

func TestCancel(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		s.track("b")
		s.post("/api/drain", `{"duration": "40s"}`)
		id := get[state](s, "/api/state").Operations[0].ID
		s.post("/api/operation", fmt.Sprintf(`{"id": %q, "do": "cancel"}`, id))
		time.Sleep(50 * time.Second)
		if st := get[state](s, "/api/state"); st.Counts.Live == 0 || len(st.Operations) != 1 || !st.Operations[0].Finished {
			s.Errorf("%+v, %+v", st.Counts, st.Operations)
		}
	})
}

func TestShed(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		for i := range 10 {
			s.track(fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		s.post("/api/shed", `{"idle": "5500ms", "fraction": 0.4, "cause": "rebalance"}`)
		time.Sleep(time.Second)
		st := get[state](s, "/api/state")
		if st.Ended["shed"] != 2 || st.Causes["rebalance"] != 2 { // of the five that were idle for so long
			s.Errorf("%v, %v", st.Ended, st.Causes)
		}
		s.post("/api/shed", `{"phase": "open", "max": 3}`)
		time.Sleep(time.Second)
		if l := get[list](s, "/api/connections"); l.labels() != "5 6 7 8 9" {
			s.Errorf("left: %s", l.labels())
		}
	})
}

// TestEnd ends a connection by the id of its row, and then one that has ended meanwhile.
func TestEnd(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		time.Sleep(time.Second)
		b := s.track("b")
		rows := get[list](s, "/api/connections").Rows
		s.post("/api/end", fmt.Sprintf(`{"id": %q, "cause": "rude"}`, rows[0].ID))
		b.Stop()
		c := s.track("c")
		s.post("/api/end", fmt.Sprintf(`{"id": %q}`, rows[1].ID))
		time.Sleep(time.Second)
		if st := s.tracker().Stats(); st.Shed != 1 || st.Causes["rude"] != 1 || !c.Live() {
			s.Errorf("%+v", st)
		}
		time.Sleep(rowsLast)
		s.wantError(request("POST", "/api/end", fmt.Sprintf(`{"id": %q}`, rows[1].ID)), http.StatusGone, "look again")
	})
}

func TestLimits(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		other, err := s.tracker().Phase(idle.Policy{Name: "other", WriteTimeout: time.Minute, NoInterrupt: true})
		if err != nil {
			s.Fatal(err)
		}
		s.track("a")
		s.track("b").Enter(other)
		get[state](s, "/api/state") // which sees the phases
		s.post("/api/limits", `{"phase": "open", "limits": {"IdleTimeout": "2m", "MaxAge": "1h"}}`)
		s.post("/api/limits", `{"phase": "other", "limits": {"WriteTimeout": "", "Heartbeat.Interval": "5s", "Heartbeat.Passive": "true", "Heartbeat.Misses": "2", "NoInterrupt": "false"}}`)
		if p := s.tracker().Policy(); p != (idle.Policy{Name: "open", IdleTimeout: 2 * time.Minute, MaxAge: time.Hour}) {
			s.Errorf("%+v", p)
		}
		if p := other.Policy(); p != (idle.Policy{Name: "other", Heartbeat: idle.Heartbeat{Interval: 5 * time.Second, Passive: true, Misses: 2}}) {
			s.Errorf("%+v", p)
		}
	})
}

// TestSettings has every field of a policy but its name among the settings.
func TestSettings(t *testing.T) {
	var full idle.Policy
	fill(t, reflect.ValueOf(&full).Elem(), 1)
	full.Name = ""
	to := map[string]string{}
	for _, l := range limitsOf(full) {
		to[l.Name] = l.Value
	}
	var p idle.Policy
	if err := setLimits(&p, to); err != nil || p != full || len(to) != len(settings) {
		t.Errorf("%+v, %v; %d of %d", p, err, len(to), len(settings))
	}
}

// fill sets each field of a struct, and of the structs in it, to a different number. The first is
// next, and fill returns the one after the last.
func fill(t *testing.T, v reflect.Value, next int64) int64 {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			next = fill(t, f, next)
		case reflect.Int, reflect.Int64:
			f.SetInt(next)
			next++
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("any")
		default:
			t.Fatalf("%s is a %v", v.Type().Field(i).Name, f.Kind())
		}
	}
	return next
}

// TestEndTwice uses an id a second time.
func TestEndTwice(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		s.track("b")
		rows := get[list](s, "/api/connections").Rows
		s.post("/api/end", fmt.Sprintf(`{"id": %q}`, rows[0].ID))
		s.wantError(request("POST", "/api/end", fmt.Sprintf(`{"id": %q}`, rows[0].ID)), http.StatusGone, "ended from here")
		s.post("/api/end", fmt.Sprintf(`{"id": %q}`, rows[1].ID))
	})
}

// TestDrainNow has an empty drain do nothing, and one that says so end all at once.
func TestDrainNow(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		s.track("a")
		s.post("/api/drain", `{"now": true}`)
		time.Sleep(time.Second)
		if st := s.tracker().Stats(); st.Drained != 1 {
			s.Errorf("%d were drained", st.Drained)
		}
	})
}

// TestSteeringIsLogged: the log says who has asked for what, also if it was refused.
func TestSteeringIsLogged(t *testing.T) {
	var log strings.Builder
	withSite(t, Options{Steer: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(s *site) {
		s.h.ServeHTTP(httptest.NewRecorder(), request("POST", "/api/shed?tracker=main", `{"idle": "30s", "cause": "rebalance"}`))
		s.h.ServeHTTP(httptest.NewRecorder(), request("POST", "/api/drain?tracker=main", `{"duration": "x"}`))
		s.h.ServeHTTP(httptest.NewRecorder(), request("GET", "/api/state?tracker=main", ""))
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), log.String())
	}
	for i, want := range [][]string{{"remote=127.0.0.1:50000", "action=shed", "tracker=main", "rebalance"}, {"action=drain", "error="}} {
		for _, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%s lacks %s", lines[i], w)
			}
		}
	}
}

// TestRefusalsAreLogged: so does the log if no handler sees the request. A flood of refusals leaves
// few records, which say how many are missing.
func TestRefusalsAreLogged(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	from := func(r *http.Request, name, value string) *http.Request {
		r.Header.Set(name, value)
		return r
	}
	stranger := func(method string) *http.Request {
		r := request(method, "/api/drain?tracker="+strings.Repeat("x", 5000), `{"now": true}`)
		r.RemoteAddr = "192.0.2.1:50000"
		return r
	}
	for i, test := range []struct {
		steer bool
		r     *http.Request
		want  []string // none: it isn't logged
	}{
		{true, stranger("POST"), []string{"remote=192.0.2.1:50000", "method=POST", "action=drain", "Authorize"}},
		{true, from(request("POST", "/api/shed", "{}"), "Sec-Fetch-Site", "cross-site"), []string{"action=shed", "another site"}},
		{true, from(request("POST", "/api/end", "{}"), "Origin", "https://evil.example"), []string{"action=end", "another site"}},
		{true, from(request("POST", "/api/limits", "{}"), "Content-Type", "text/plain"), []string{"action=limits", "text/plain"}},
		{true, from(request("POST", "/api/limits", "{}"), "Content-Type", strings.Repeat("x", 5000)), []string{"action=limits", "Content-Type"}},
		{true, request("PUT", "/api/limits", "{}"), []string{"method=PUT", "it must be POST"}},
		{true, request("GET", "/api/drain", ""), []string{"method=GET", "action=drain", "it must be POST"}},
		{true, request("DELETE", "/api/state", ""), []string{"method=DELETE", "action=state"}},
		{true, request("POST", "/api/nothing", "{}"), []string{"action=nothing", "nothing at this path"}},
		{false, request("POST", "/api/drain", "{}"), []string{"action=drain", "steering is off"}},
		{false, request("GET", "/api/drain", ""), []string{"action=drain", "steering is off"}},
		{true, from(request("GET", "/api/state", ""), "Via", "1.1 proxy"), nil},
		{true, request("GET", "/nothing", ""), nil},
	} {
		log.Reset()
		withSite(t, Options{Steer: test.steer, Logger: logger}, func(s *site) { s.serve(test.r) })
		line := log.String()
		if n := strings.Count(line, "\n"); n != min(1, len(test.want)) || len(line) > 3000 {
			t.Errorf("%d: %d lines: %s", i, n, line)
		}
		for _, w := range test.want {
			if !strings.Contains(line, w) {
				t.Errorf("%d: %s lacks %s", i, line, w)
			}
		}
	}

	log.Reset()
	withSite(t, Options{Steer: true, Logger: logger}, func(s *site) {
		for range 1000 {
			s.serve(stranger("POST"))
		}
		s.post("/api/shed", `{"max": 1}`) // a change that is made is always logged
		time.Sleep(time.Second)
		s.serve(stranger("POST"))
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 22 || !strings.Contains(lines[20], "action=shed") || !strings.Contains(lines[21], "unlogged=980") {
		t.Errorf("%d lines, the last %s", len(lines), lines[len(lines)-1])
	}
}
