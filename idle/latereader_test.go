package idle_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A lateReader is a connection whose server doesn't read at once. Its system doesn't tell when
// input came.
type lateReader struct {
	idle.Conn
	unread atomic.Bool
	ended  atomic.Pointer[idle.TimeoutError]
}

// lateReaders has hooks for lateReaders, which answer pings at once.
var lateReaders = idle.Hooks{
	Ping: func(owner any) error { owner.(*lateReader).unread.Store(true); return nil },
	Probe: func(owner any, _ idle.Reason) idle.SocketState {
		return idle.SocketState{Unread: owner.(*lateReader).unread.Load()}
	},
	Expire: func(owner any, err *idle.TimeoutError) { owner.(*lateReader).ended.Store(err) },
}

func withLateReader(t *testing.T, p idle.Policy, test func(c *lateReader)) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(p, &idle.Options{Tick: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		c := new(lateReader)
		if err := tracker.Track(&c.Conn, c, &lateReaders); err != nil {
			t.Fatal(err)
		}
		test(c)
	})
}

// TestAnswersReadLate has a server that works for longer than a ping may wait for its answer. The
// answer lies unread meanwhile.
func TestAnswersReadLate(t *testing.T) {
	beat := idle.Heartbeat{Interval: 500 * time.Millisecond, Timeout: 250 * time.Millisecond}
	withLateReader(t, idle.Policy{Heartbeat: beat}, func(c *lateReader) {
		for range 20 {
			time.Sleep(1200 * time.Millisecond)
			synctest.Wait()
			if err := c.ended.Load(); err != nil {
				t.Fatal("ended though it answered every ping: ", err)
			}
			c.unread.Store(false)
			c.Received(1)
		}
	})
}

// TestFloodWithoutBeats has a peer that sends all the time, so that some input is always unread, and
// never beats.
func TestFloodWithoutBeats(t *testing.T) {
	beat := idle.Heartbeat{Interval: time.Second, Timeout: 500 * time.Millisecond, Passive: true}
	withLateReader(t, idle.Policy{Heartbeat: beat}, func(c *lateReader) {
		begun := time.Now()
		for c.unread.Store(true); c.ended.Load() == nil && time.Since(begun) < 10*time.Second; {
			time.Sleep(10 * time.Millisecond)
			c.Received(10_000)
		}
		if took := time.Since(begun); took < 1500*time.Millisecond || took > 1600*time.Millisecond {
			t.Errorf("ended after %v by %v", took, c.ended.Load())
		}
	})
}

// TestBeatReadLate has beats that come in time and are read a little after the limit.
func TestBeatReadLate(t *testing.T) {
	beat := idle.Heartbeat{Interval: time.Second, Timeout: 500 * time.Millisecond, Passive: true}
	withLateReader(t, idle.Policy{Heartbeat: beat}, func(c *lateReader) {
		for range 20 {
			time.Sleep(1400 * time.Millisecond)
			c.unread.Store(true)
			time.Sleep(135 * time.Millisecond)
			synctest.Wait()
			if err := c.ended.Load(); err != nil {
				t.Fatal("ended though it beat in time: ", err)
			}
			c.unread.Store(false)
			c.Received(1)
			c.Beat()
		}
	})
}
