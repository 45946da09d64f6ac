package idlenet

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A connection that is not tracked works, and nothing times it out, until it is
// tracked again, by whatever tracker.
func TestUntrackAndTrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		first := newTracker(t, idle.Policy{IdleTimeout: limit})
		second, err := idle.New(idle.Policy{Name: "second", IdleTimeout: 3 * limit}, &idle.Options{Tick: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		server, client := pipe(t, first, nil)
		defer server.Close()
		go io.Copy(client, client)
		says := func() {
			t.Helper()
			if _, err := server.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := read1(server); err != nil {
				t.Fatal(err)
			}
		}
		if !server.conn().Untrack() || server.conn().Untrack() {
			t.Error("it was tracked once")
		}
		if st := first.Stats(); st.Live != 0 || st.Released != 1 || st.Closed != 0 {
			t.Errorf("%+v", st)
		}
		for range 2 {
			time.Sleep(10 * limit)
			says()
		}
		if err := server.conn().Track(second, server); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			time.Sleep(2 * limit)
			says()
		}
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonIdle)
		notBefore(t, at, start, 3*limit)
		if server.conn().Untrack() {
			t.Error("untracked after its timeout")
		}
		if st := second.Stats(); st.Tracked != 0 || st.Adopted != 1 || st.TimedOut[idle.ReasonIdle] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// Limits on waits count for reads and writes that wait when tracking begins, from
// then on, and not while nothing waits.
func TestTrackDuringReadAndWrite(t *testing.T) {
	const limit = 100 * time.Millisecond
	for name, test := range map[string]struct {
		policy idle.Policy
		wait   func(c net.Conn) error
		reason idle.Reason
	}{
		"read":       {idle.Policy{ReadTimeout: limit}, read1, idle.ReasonRead},
		"read rate":  {idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: limit}}, read1, idle.ReasonMinReadRate},
		"write":      {idle.Policy{WriteTimeout: limit}, func(c net.Conn) error { _, err := c.Write([]byte("x")); return err }, idle.ReasonWrite},
		"write rate": {idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: limit}}, func(c net.Conn) error { _, err := c.Write([]byte("x")); return err }, idle.ReasonMinWriteRate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _ := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
				defer server.Close()
				server.conn().Untrack()
				ended := make(chan error, 1)
				go func() { ended <- test.wait(server) }()
				time.Sleep(7 * limit)
				start := time.Now()
				if err := server.conn().Track(newTracker(t, test.policy), server); err != nil {
					t.Fatal(err)
				}
				err, at := await(t, func() error { return <-ended })
				wantTimeout(t, err, test.reason)
				onTime(t, at, start, limit)
			})
			synctest.Test(t, func(t *testing.T) {
				server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
				defer server.Close()
				server.conn().Untrack()
				tracker := newTracker(t, test.policy)
				if err := server.conn().Track(tracker, server); err != nil {
					t.Fatal(err)
				}
				time.Sleep(7 * limit)
				if st := tracker.Stats(); st.Live != 1 {
					t.Errorf("%+v, though nothing waits", st)
				}
				go io.Copy(client, client)
				if _, err := server.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				if err := read1(server); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Phases and pings are those of the tracker that tracks the connection now.
func TestTrackWithPhasesAndPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 100 * time.Millisecond
		pings := make(chan *Conn, 10)
		server, _ := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), &Options{Ping: func(c *Conn) error { pings <- c; return nil }})
		defer server.Close()
		server.conn().Untrack()
		second := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
		phase, err := second.Phase(idle.Policy{Name: "beats", Heartbeat: idle.Heartbeat{Interval: interval, Timeout: interval, Misses: 2}})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.conn().Track(second, server); err != nil {
			t.Fatal(err)
		}
		server.Enter(phase)
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonHeartbeat)
		notBefore(t, at, start, 3*interval)
		if n := len(pings); n != 2 || <-pings != server {
			t.Errorf("%d pings", n)
		}
	})
}

func TestTrackRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
		server, _ := pipe(t, tracker, nil)
		if err := server.conn().Track(tracker, server); err != idle.ErrTracked {
			t.Errorf("of one that is tracked: %v", err)
		}
		if err := server.conn().Track(newTracker(t, idle.Policy{Heartbeat: idle.Heartbeat{Interval: 1e9, Timeout: 1e9}}), server); err == nil {
			t.Error("a policy that pings is accepted without Options.Ping")
		}
		ended, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended.Close()
		server.conn().Untrack()
		if err := server.conn().Track(ended, server); err != idle.ErrClosed {
			t.Errorf("by a tracker that is closed: %v", err)
		}
		if err := server.conn().Track(tracker, server); err != nil {
			t.Errorf("after all that: %v", err)
		}
		wantTimeout(t, read1(server), idle.ReasonIdle)
		if err := server.conn().Track(tracker, server); err != error(server.Timeout()) {
			t.Errorf("of one that has timed out: %v", err)
		}
		other, _ := pipe(t, tracker, nil)
		other.conn().Untrack()
		other.Close()
		if err := other.conn().Track(tracker, other); err != net.ErrClosed {
			t.Errorf("of one that is closed: %v", err)
		}
		server.Close()
		if st := tracker.Stats(); st.Live != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Whatever meets a Track, each connection is tracked once at most, and not after
// its Close.
func TestTrackMeetsTrackAndClose(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
	other := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
	for i := range 300 {
		server, client := pipe(t, tracker, nil)
		go io.Copy(io.Discard, client)
		server.conn().Untrack()
		var all sync.WaitGroup
		for _, by := range []*idle.Tracker{tracker, other} {
			all.Go(func() { server.conn().Track(by, server) })
		}
		all.Go(func() { server.Write([]byte("x")); server.Beat() })
		if i%2 == 0 {
			all.Go(func() { server.Close() })
		}
		all.Wait()
		if live := tracker.Stats().Live + other.Stats().Live; i%2 == 0 && live != 0 || live > 1 {
			t.Fatalf("%d are live", live)
		}
		server.Close()
	}
	if live := tracker.Stats().Live + other.Stats().Live; live != 0 {
		t.Errorf("%d are live", live)
	}
}
