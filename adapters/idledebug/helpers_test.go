package idledebug

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A site is a Handler with the trackers that it shows.
type site struct {
	*testing.T
	trackers map[string]*idle.Tracker
	h        *Handler
	labels   int // calls of label
}

// withSite runs a test in virtual time with a Handler of trackers of these names, or of
// one named "main". Connections end after a minute.
func withSite(t *testing.T, o Options, test func(s *site), names ...string) {
	withTrackers(t, o, func(opts *idle.Options) (*idle.Tracker, error) {
		return idle.New(idle.Policy{Name: "open", IdleTimeout: time.Minute}, opts)
	}, test, names...)
}

// withTrackers is withSite for trackers that start makes.
func withTrackers(t *testing.T, o Options, start func(*idle.Options) (*idle.Tracker, error), test func(s *site), names ...string) {
	if len(names) == 0 {
		names = []string{"main"}
	}
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, trackers: map[string]*idle.Tracker{}}
		for _, name := range names {
			tracker, err := start(&idle.Options{Label: s.label, Shards: 2, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer tracker.Close()
			s.trackers[name] = tracker
		}
		var err error
		if s.h, err = New(s.trackers, &o); err != nil {
			t.Fatal(err)
		}
		test(s)
	})
}

// label returns the label of a connection, which is its owner.
func (s *site) label(owner any) string {
	s.labels++
	return owner.(string)
}

func (s *site) tracker() *idle.Tracker { return s.trackers[s.h.names[0]] }

// hooks have no socket to close.
var hooks = &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}

// track tracks a connection with an owner, which is its label.
func (s *site) track(owner string) *idle.Conn {
	s.Helper()
	c := &idle.Conn{}
	if err := s.tracker().Track(c, owner, hooks); err != nil {
		s.Fatal(err)
	}
	c.AwaitRead()
	return c
}

// phase returns a phase of the tracker.
func (s *site) phase(p idle.Policy) *idle.Phase {
	s.Helper()
	phase, err := s.tracker().Phase(p)
	if err != nil {
		s.Fatal(err)
	}
	return phase
}

// block adds an event loop that does nothing, so that a census can't finish.
func (s *site) block() {
	s.Helper()
	if _, err := s.tracker().NewShard(func(func()) error { return nil }); err != nil {
		s.Fatal(err)
	}
}

// request returns a request from this machine.
func request(method, target string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:6060"+target, nil)
	r.RemoteAddr = "127.0.0.1:50000"
	return r
}

// serve returns the status and the body of an answer.
func (s *site) serve(r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		s.Fatal(err)
	}
	return w.Code, string(text)
}

// get decodes the answer to a GET, which must succeed.
func get[T any](s *site, target string) (v T) {
	s.Helper()
	status, text := s.serve(request("GET", target))
	if status != http.StatusOK {
		s.Fatalf("GET %s: %d, %s", target, status, text)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		s.Fatalf("GET %s: %v in %s", target, err, text)
	}
	return v
}

// wantError sends a request that must fail with a status, and with an error that contains
// some text.
func (s *site) wantError(r *http.Request, status int, text string) {
	s.Helper()
	got, body := s.serve(r)
	var e struct{ Error string }
	if err := json.Unmarshal([]byte(body), &e); err != nil || got != status || !strings.Contains(e.Error, text) {
		s.Errorf("%s %s: %d, %s; want %d and %q", r.Method, r.URL, got, body, status, text)
	}
}

// labels returns those of a list.
func (l list) labels() string {
	var labels []string
	for _, r := range l.Rows {
		labels = append(labels, r.Label)
	}
	return strings.Join(labels, " ")
}
