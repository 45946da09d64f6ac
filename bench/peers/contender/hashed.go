package contender

import (
	"sync"
	"time"
)

// hashed is a wheel like Netty's HashedWheelTimer, written for this comparison:
// a ring of slots, and with each timer the number of rounds that it has to
// wait. Every tick goes through all of a slot, whatever is due in it.
type hashed struct {
	timeout time.Duration
	expired func(int)
	clock   ticks
	stop    chan struct{}

	mu    sync.Mutex
	slots []hashedConn // each the head of a ring
	at    uint64       // the tick that was gone through last
	conns []hashedConn
	due   []int // scratch of tick
}

type hashedConn struct {
	prev, next *hashedConn // nil if in no slot
	rounds     uint64
	index      int
}

// hashedSlots is Netty's default.
const hashedSlots = 512

func newHashed(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	h := makeHashed(n, timeout, expired)
	go every(Tick, h.stop, h.tick)
	return h, nil
}

func makeHashed(n int, timeout time.Duration, expired func(int)) *hashed {
	h := &hashed{
		timeout: timeout, expired: expired, clock: ticks{time.Now()}, stop: make(chan struct{}),
		slots: make([]hashedConn, hashedSlots), conns: make([]hashedConn, n),
	}
	for i := range h.slots {
		h.slots[i].prev, h.slots[i].next = &h.slots[i], &h.slots[i]
	}
	for i := range h.conns {
		h.conns[i].index = i
	}
	return h
}

func (h *hashed) Arm(i int) { h.move(&h.conns[i]) }

func (h *hashed) Touch(list []uint32) {
	for _, i := range list {
		h.move(&h.conns[i])
	}
}

func (h *hashed) move(c *hashedConn) {
	deadline := h.clock.after(h.timeout)
	h.mu.Lock()
	c.unlink()
	deadline = max(deadline, h.at+1)
	c.rounds = (deadline - h.at - 1) / hashedSlots
	c.link(&h.slots[deadline%hashedSlots])
	h.mu.Unlock()
}

func (h *hashed) Cancel(i int) {
	h.mu.Lock()
	h.conns[i].unlink()
	h.mu.Unlock()
}

func (h *hashed) tick() {
	for _, i := range h.takeDue() {
		h.expired(i)
	}
}

// takeDue goes through the slots of all ticks that have passed.
func (h *hashed) takeDue() []int {
	now := h.clock.now()
	h.due = h.due[:0]
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.at < now {
		h.at++
		h.scan(&h.slots[h.at%hashedSlots])
	}
	return h.due
}

func (h *hashed) scan(head *hashedConn) {
	for c := head.next; c != head; {
		next := c.next
		if c.rounds == 0 {
			c.unlink()
			h.due = append(h.due, c.index)
		} else {
			c.rounds--
		}
		c = next
	}
}

func (h *hashed) Close() { close(h.stop) }

func (c *hashedConn) link(head *hashedConn) {
	c.prev, c.next = head.prev, head
	head.prev.next, head.prev = c, c
}

func (c *hashedConn) unlink() {
	if c.next == nil {
		return
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
}
