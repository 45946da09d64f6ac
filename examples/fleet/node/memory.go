package node

import (
	"context"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
)

// A memory is what directories have answered to a gateway that does not keep them. It believes
// an answer for 2 to 4 seconds. So a client that has moved meanwhile is found by one of the next
// repetitions of a letter, and the memory is never larger than the traffic.
type memory struct {
	free chan struct{} // one for each question under way

	mu            sync.Mutex // guards what follows
	recent, older map[string]directory.Place
	turned        time.Time // when recent ones became older
}

// find calls then with the place of a client: at once if it is remembered, and otherwise when a
// directory has answered. If too many questions wait, it answers that it does not know.
func (m *memory) find(ctx context.Context, f *Fleet, client string, then func(directory.Place, bool)) {
	if p, ok := m.recall(client); ok {
		then(p, true)
		return
	}
	select {
	case m.free <- struct{}{}:
	default:
		then(directory.Place{}, false)
		return
	}
	go func() {
		defer func() { <-m.free }()
		places, _ := f.Who(ctx, client)
		p, ok := places[client]
		if ok {
			m.learn(client, p)
		}
		then(p, ok)
	}()
}

func (m *memory) recall(client string) (directory.Place, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn()
	p, ok := m.recent[client]
	if !ok {
		p, ok = m.older[client]
	}
	return p, ok
}

func (m *memory) learn(client string, p directory.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn()
	m.recent[client] = p
}

// turn forgets the older half if it is time to. m.mu is held.
func (m *memory) turn() {
	switch since := time.Since(m.turned); {
	case since > 2*believedFor:
		m.recent, m.older = map[string]directory.Place{}, nil
	case since > believedFor:
		m.recent, m.older = map[string]directory.Place{}, m.recent
	default:
		return
	}
	m.turned = time.Now()
}
