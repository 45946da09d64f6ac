//go:build proof

package idlenet

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestFarewellIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	asked := 0
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: 300 * time.Millisecond}), &Options{
		OnTimeout: func(c *Conn, _ *idle.TimeoutError) bool {
			asked++
			c.Write([]byte("bye"))
			time.Sleep(100 * time.Millisecond) // so that the answer is a late one, before which the kernel is asked
			return false
		}})
	go readAll(client)
	err, _ := await(t, func() error { return read1(server) })
	wantTimeout(t, err, idle.ReasonIdle)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
