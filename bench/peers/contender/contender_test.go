package contender

import (
	"testing"
	"time"
)

// TestHashedRounds has timers lie several rounds away, and more than one tick
// pass between two looks.
func TestHashedRounds(t *testing.T) {
	var due []int
	h := makeHashed(1, Tick*3*hashedSlots, func(i int) { due = append(due, i) })
	h.Arm(0)
	deadline := h.clock.after(h.timeout)
	pass := func(tick uint64) {
		h.clock.start = time.Now().Add(-time.Duration(tick)*Tick - Tick/2)
		h.tick()
	}
	pass(deadline / 2)
	pass(deadline - 3)
	if len(due) != 0 {
		t.Fatalf("expired %v before tick %d", due, deadline)
	}
	pass(deadline)
	if len(due) != 1 {
		t.Errorf("expired %v by tick %d, want one", due, deadline)
	}
}
