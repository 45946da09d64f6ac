//go:build proof

package faults

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// A handler that keeps an event loop from its work for longer than all limits
// does not get the loop's live connections closed: what they have sent
// meanwhile waits in the kernel, and is asked for. Silent ones are closed once
// the loop is free.
func TestHoggedLoop(t *testing.T) {
	long(t)
	t.Parallel()
	s := startGnet(t, idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, func(c gnet.Conn, b []byte) {
		if b[0] == '!' {
			time.Sleep(3 * limit)
		}
		c.Write(b)
	})
	var talkers []*talker
	for range 10 {
		talkers = append(talkers, talk(t, s.address, "hello"))
	}
	hog := dial(t, s.address)
	for range 2 {
		for _, k := range talkers {
			k.answered(t)
		}
		if _, err := hog.Write([]byte("!")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * limit)
		hog.Close()
		hog = dial(t, s.address)
	}
	for _, k := range talkers {
		k.mustLive(t)
	}
	awaitEnd(t, hog)
	if r := s.reason(t); r != idle.ReasonIdle && r != idle.ReasonRead {
		t.Errorf("the silent one was closed for %v", r)
	}
}
