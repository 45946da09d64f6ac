package idle

import (
	"container/heap"
	"slices"
)

// mostIdle keeps the most idle of the candidates that it is given. It implements
// heap.Interface for the sake of the one that is least idle, which is on top.
type mostIdle struct {
	most int
	heap []candidate
}

func (m *mostIdle) Len() int           { return len(m.heap) }
func (m *mostIdle) Less(i, j int) bool { return byStamp(m.heap[i], m.heap[j]) > 0 }
func (m *mostIdle) Swap(i, j int)      { m.heap[i], m.heap[j] = m.heap[j], m.heap[i] }
func (m *mostIdle) Push(c any)         { m.heap = append(m.heap, c.(candidate)) }
func (m *mostIdle) Pop() any           { panic("idle: a mostIdle only drops") }

// add keeps c if there are few, or it is more idle than another one, which is dropped.
func (m *mostIdle) add(c candidate) {
	switch {
	case len(m.heap) < m.most:
		heap.Push(m, c)
	case byStamp(m.heap[0], c) > 0:
		m.heap[0] = c
		heap.Fix(m, 0)
	}
}

// sorted returns those that are kept, the most idle one last.
func (m *mostIdle) sorted() []candidate {
	slices.SortFunc(m.heap, byLaterStamp)
	return m.heap
}
