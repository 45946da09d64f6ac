package kernel

import (
	"testing"
	"time"
)

func TestSending(t *testing.T) {
	for r, want := range map[Report]bool{
		{}: false, // nothing is known
		{QueuedKnown: true, Queued: 1, Out: time.Millisecond}:                           false, // it has been sent
		{QueuedKnown: true, Queued: 1, NotSent: 1, Out: time.Millisecond}:               true,
		{QueuedKnown: true, Queued: 1, NotSent: 1, Out: stalledAfter - time.Nanosecond}: true,
		{QueuedKnown: true, Queued: 1, NotSent: 1, Out: stalledAfter}:                   false, // nothing moves any more
		{QueuedKnown: true, Queued: 1, NotSent: 1}:                                      false, // nor is it known when it did
	} {
		if r.Sending() != want || r.Evidence().Sending != want {
			t.Errorf("%+v: %v, and as evidence %v", r, r.Sending(), r.Evidence().Sending)
		}
	}
}
