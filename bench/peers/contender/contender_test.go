package contender

import (
	"sync"
	"testing"
	"time"
)

// record counts how often each connection expired.
type record struct {
	mu    sync.Mutex
	times map[int]int
}

func (r *record) expired(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[i]++
}

func (r *record) get() (who map[int]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who = make(map[int]int)
	for i, n := range r.times {
		who[i] = n
	}
	return who
}

// TestContenders has each of them time five connections, of which one is
// cancelled and one never armed. When it does so is for the workloads to judge.
func TestContenders(t *testing.T) {
	for _, k := range All() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			const timeout = time.Second
			begun := time.Now()
			r := &record{times: make(map[int]int)}
			c, err := k.New(timeout, r.expired)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Open(5); err != nil {
				t.Fatal(err)
			}
			for _, i := range []int{0, 1, 2, 3} {
				if err := c.Arm(i); err != nil {
					t.Fatal(err)
				}
			}
			c.Cancel(1)
			c.Touch([]uint32{0, 2, 0})
			c.Cancel(3)
			if err := c.Arm(3); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > timeout/2 {
				t.Skipf("inconclusive: the machine needed %v for that", took)
			}
			deadline := time.Now().Add(20 * time.Second)
			for len(r.get()) < 3 && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond) // for what should not come
			got := r.get()
			for i, want := range []int{1, 0, 1, 1, 0} {
				if got[i] != want {
					t.Errorf("connection %d expired %d times, want %d", i, got[i], want)
				}
			}
		})
	}
}

func TestFind(t *testing.T) {
	for _, k := range All() {
		if got, ok := Find(k.Name); !ok || got.Name != k.Name {
			t.Errorf("%s is not found", k.Name)
		}
	}
	if _, ok := Find("idle"); ok {
		t.Error("a part of a name is found")
	}
}

func TestStatsOf(t *testing.T) {
	for _, k := range All() {
		c, err := k.New(time.Minute, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := StatsOf(c); ok != (k.Name == "idlewheel") {
			t.Errorf("%s has stats: %v", k.Name, ok)
		}
		c.Close()
	}
}

// TestHashedRounds has timers lie several rounds away, and more than one tick
// pass between two looks.
func TestHashedRounds(t *testing.T) {
	var due []int
	start := time.Now()
	h := &hashed{
		timeout: Tick * 3 * hashedSlots, clock: ticks{start}, stop: make(chan struct{}),
		slots: make([]hashedConn, hashedSlots), expired: func(i int) { due = append(due, i) },
	}
	for i := range h.slots {
		h.slots[i].prev, h.slots[i].next = &h.slots[i], &h.slots[i]
	}
	if err := h.Open(1); err != nil {
		t.Fatal(err)
	}
	if err := h.Arm(0); err != nil {
		t.Fatal(err)
	}
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
