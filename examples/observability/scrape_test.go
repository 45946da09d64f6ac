package observability

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// newRegistry returns a registry with a tracker that all metrics tell something about.
// Two of its connections have timed out, one was shed, and two are live.
func newRegistry(t *testing.T) (*prometheus.Registry, *idle.Tracker) {
	t.Helper()
	tracker, err := idle.New(idle.Policy{Name: "new", IdleTimeout: time.Hour}, &idle.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracker.Close() })
	if err := tracker.SetCapacity(idle.Capacity{MaxConns: 10}); err != nil {
		t.Fatal(err)
	}
	lasting, err := tracker.Phase(idle.Policy{Name: "lasting", IdleTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	brief, err := tracker.Phase(idle.Policy{Name: "brief", IdleTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}, Reap: func(any) {}}
	for i := range 5 {
		c := new(idle.Conn)
		if err := tracker.Track(c, c, hooks); err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			c.Enter(lasting)
		} else {
			c.Enter(brief)
		}
		if i == 0 {
			c.End("tests")
		}
	}
	for st, deadline := tracker.Stats(), time.Now().Add(30*time.Second); st.Live > 2 || st.Lifetime.Count() < 3; st = tracker.Stats() {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", st)
		}
		time.Sleep(time.Millisecond)
	}
	f, err := pressure.Follow(tracker, pressure.Config{
		Read: func() (float64, error) { return 0.5, nil }, Policy: idle.Policy{IdleTimeout: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := idleprom.New(map[string]*idle.Tracker{"test": tracker}, &idleprom.Options{Pressure: func(string) *pressure.Follower { return f }})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	return registry, tracker
}
