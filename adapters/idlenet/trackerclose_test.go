package idlenet

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestTrackerClosedDuringOnEnd closes the tracker while OnEnd takes longer than Close waits. The
// connection is closed all the same, though its owner does nothing.
func TestTrackerClosedDuringOnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		goOn := make(chan bool)
		_, client := pipe(t, tracker, &Options{OnEnd: func(*Conn, *idle.TimeoutError) { <-goOn }})
		time.Sleep(2 * time.Second)
		if _, err := tracker.Close(); err == nil {
			t.Error("Close doesn't say that OnEnd is running")
		}
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		if n := tracker.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
		client.SetReadDeadline(time.Now().Add(time.Minute))
		if err := read1(client); err != io.EOF {
			t.Errorf("open after its end and that of the tracker: %v", err)
		}
	})
}
