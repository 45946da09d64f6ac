//go:build proof

package idlehttp

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestEndsReconcile has connections of all kinds end for all kinds of reasons. What OnEnds has
// received is what Stats has counted, each connection once. Streams count in Limits and Phases only.
func TestEndsReconcile(t *testing.T) {
	var mu sync.Mutex
	ends := map[idle.Reason]uint64{}
	limits := Timeouts{KeepAliveTimeout: time.Minute, BodyRate: idle.Rate{BytesPerSecond: 1000, Grace: 300 * ms}, Idle: idle.Options{OnEnds: func(all []idle.End) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range all {
			ends[e.Reason]++
		}
	}}}
	handed := make(chan struct{}, 1)
	s := start2(t, false, limits, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hijack":
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "ready\n")
			if r.Header.Get("Watch") != "" {
				p := idle.Policy{Name: "lines", Heartbeat: idle.Heartbeat{Interval: 50 * ms, Timeout: 200 * ms}}
				if err := Watch(r, p, Callbacks{Ping: func() error { return nil }}); err != nil {
					t.Error(err)
				}
			} else {
				defer func() { handed <- struct{}{} }()
			}
			io.Copy(io.Discard, c)
		default:
			io.Copy(io.Discard, r.Body)
		}
	})

	// One that closes, one whose body stops, a WebSocket that answers no ping, one without limits.
	closes := s.Dial()
	closes.Get("/")
	closes.Close()
	stops := s.Dial()
	stops.Send(httpsuite.Post(1000) + "hello")
	upgrade := func(header string) *httpsuite.Client {
		c := s.Dial()
		c.Send("GET /hijack HTTP/1.1\r\nHost: here\r\nConnection: upgrade\r\nUpgrade: lines\r\n" + header + "\r\n")
		c.Line("ready")
		return c
	}
	upgrade("Watch: 1\r\n").WantClosed()
	upgrade("").Close()
	httpsuite.Receive(t, handed)
	stops.Drain()

	// A connection of HTTP/2 with five streams that are reset.
	tr := s.transport(true)
	for range 5 {
		body, out := io.Pipe()
		if res, err := (&http.Client{Transport: tr}).Post("http://"+s.Addr().String(), "", body); err != nil {
			t.Error(err)
		} else if res.Body.Close(); res.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a body that never comes is answered with %s", res.Status)
		}
		out.Close()
	}

	// The most idle one makes room, and newcomers are refused.
	idler := s.Dial()
	idler.Get("/")
	tracker := s.Tracker()
	if err := tracker.SetCapacity(idle.Capacity{MaxConns: 1, MinIdle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	s.DialBare().WantClosed()
	httpsuite.Eventually(t, "a newcomer is refused", func() bool { return tracker.Stats().Refused == 1 })
	if err := tracker.SetCapacity(idle.Capacity{MaxConns: 1}); err != nil {
		t.Fatal(err)
	}
	httpsuite.Eventually(t, "one makes room", func() bool { return tracker.Stats().Evicted > 0 })
	tr.CloseIdleConnections()
	idler.Close()

	st := s.Settled()
	if st.Limits["BodyRate"] != 6 || st.Phases["request stream"] != 5 {
		t.Errorf("%v, %v", st.Limits, st.Phases)
	}
	httpsuite.Eventually(t, "all ends are reported", func() bool {
		mu.Lock()
		defer mu.Unlock()
		sum := uint64(0)
		for _, n := range ends {
			sum += n
		}
		return sum == st.Tracked
	})
	mu.Lock()
	defer mu.Unlock()
	for r, n := range st.ByReason() {
		if ends[r] != n {
			t.Errorf("%v: %d were reported, %d counted", r, ends[r], n)
		}
	}
	if st.TimedOut[idle.ReasonMinReadRate] != 1 || st.TimedOut[idle.ReasonHeartbeat] != 1 || st.Evicted != 1 {
		t.Errorf("%v timed out, %d evicted", st.TimedOut, st.Evicted)
	}
	if all := st.Closed + st.Evicted + 2; st.Tracked != all {
		t.Errorf("%d tracked, %d ended or open", st.Tracked, all)
	}
}
