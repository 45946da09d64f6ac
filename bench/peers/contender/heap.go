package contender

import (
	"container/heap"
	"sync"
	"time"
)

// heaped is the textbook's priority queue of deadlines, and a goroutine that
// sleeps until the first of them.
type heaped struct {
	timeout time.Duration
	expired func(int)
	start   time.Time
	stop    chan struct{}
	sooner  chan struct{} // the first deadline is sooner than it was

	mu    sync.Mutex
	queue queue
	conns []heapConn
}

type heapConn struct {
	deadline time.Duration // since start
	place    int           // in the queue, -1 if not
	index    int
}

func newHeap(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	h := &heaped{
		timeout: timeout, expired: expired, start: time.Now(), conns: make([]heapConn, n),
		stop: make(chan struct{}), sooner: make(chan struct{}, 1),
	}
	for i := range h.conns {
		h.conns[i].place, h.conns[i].index = -1, i
	}
	go h.run()
	return h, nil
}

func (h *heaped) Arm(i int) { h.move(&h.conns[i]) }

func (h *heaped) Touch(list []uint32) {
	for _, i := range list {
		h.move(&h.conns[i])
	}
}

func (h *heaped) move(c *heapConn) {
	h.mu.Lock()
	c.deadline = time.Since(h.start) + h.timeout
	if c.place >= 0 {
		heap.Fix(&h.queue, c.place)
	} else {
		heap.Push(&h.queue, c)
	}
	first := c.place == 0
	h.mu.Unlock()
	if first {
		select {
		case h.sooner <- struct{}{}:
		default:
		}
	}
}

func (h *heaped) Cancel(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := &h.conns[i]; c.place >= 0 {
		heap.Remove(&h.queue, c.place)
	}
}

func (h *heaped) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-h.sooner:
		case <-timer.C:
		}
		due, rest := h.takeDue()
		timer.Reset(rest)
		for _, c := range due {
			h.expired(c.index)
		}
	}
}

// takeDue takes out what is due, and returns how long nothing else is.
func (h *heaped) takeDue() (due []*heapConn, rest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.start)
	for len(h.queue) > 0 && h.queue[0].deadline <= now {
		due = append(due, heap.Pop(&h.queue).(*heapConn))
	}
	if len(h.queue) == 0 {
		return due, time.Hour
	}
	return due, h.queue[0].deadline - now
}

func (h *heaped) Close() { close(h.stop) }

// queue is a heap.Interface.
type queue []*heapConn

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].deadline < q[j].deadline }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	c := x.(*heapConn)
	c.place = len(*q)
	*q = append(*q, c)
}

func (q *queue) Pop() any {
	old := *q
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	c.place = -1
	return c
}
