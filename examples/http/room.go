package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/idle"
)

// room is which WebSockets there are, and who watches them.
type room struct {
	beat   idle.Heartbeat
	url    string          // of /ws
	secure string          // the address with TLS
	ctx    context.Context // until the server stops
	live   sync.WaitGroup  // members

	mu       sync.Mutex
	last     int
	members  map[int]*member
	watchers map[chan []byte]bool
}

// member is a WebSocket, as the page shows it.
type member struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	State  string `json:"state"` // alive, pinged or gone
	Pings  int    `json:"pings"`
	Misses int    `json:"misses"` // in a row
	Silent int64  `json:"silent"` // for how many ms, when it was told
	heard  time.Time
}

// note changes a member, and tells all watchers.
func (rm *room) note(m *member, change func() (text string)) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	text := change()
	m.Silent = time.Since(m.heard).Milliseconds()
	line, _ := json.Marshal(map[string]any{"member": m, "text": text})
	for w := range rm.watchers {
		select {
		case w <- line:
		default: // it is too far behind; it will come again, and be told how all are
			delete(rm.watchers, w)
			close(w)
		}
	}
}

func (rm *room) enter(name, from string) *member {
	m := &member{Name: name}
	rm.note(m, func() string {
		rm.last++
		m.ID, m.State, m.heard = rm.last, "alive", time.Now()
		rm.members[m.ID] = m
		return fmt.Sprintf("is here: %s, from %s", name, from)
	})
	return m
}

func (rm *room) heard(m *member, what string) {
	rm.note(m, func() string {
		m.State, m.Misses, m.heard = "alive", 0, time.Now()
		return what
	})
}

func (rm *room) pinged(m *member) {
	rm.note(m, func() string {
		m.Pings++
		if m.State == "alive" {
			m.State = "pinged"
			return "is pinged"
		}
		m.Misses++
		return "does not answer, and is pinged again"
	})
}

func (rm *room) leave(m *member, err error) {
	rm.note(m, func() string {
		m.State = "gone"
		delete(rm.members, m.ID)
		var timeout *idle.TimeoutError
		if errors.As(err, &timeout) {
			if timeout.Reason == idle.ReasonHeartbeat {
				m.Misses++ // the last one
			}
			return fmt.Sprintf("was dropped: %v", timeout)
		}
		if status := websocket.CloseStatus(err); status != -1 {
			return fmt.Sprintf("has left: %v", status)
		}
		return fmt.Sprintf("was lost: %v", err)
	})
}

// watch returns what there is to tell, beginning with how all are.
func (rm *room) watch(via string) chan []byte {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	for _, m := range rm.members {
		m.Silent = time.Since(m.heard).Milliseconds()
	}
	line, _ := json.Marshal(map[string]any{
		"members": rm.members, "via": via, "secure": rm.secure,
		"interval": rm.beat.Interval.Milliseconds(), "timeout": rm.beat.Timeout.Milliseconds(), "misses": max(rm.beat.Misses, 1),
	})
	w := make(chan []byte, 64)
	w <- line
	rm.watchers[w] = true
	return w
}

// events streams what happens, as server-sent events.
func (rm *room) events(w http.ResponseWriter, r *http.Request) {
	lines := rm.watch(r.Proto)
	defer func() {
		rm.mu.Lock()
		defer rm.mu.Unlock()
		delete(rm.watchers, lines)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", line)
			http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		case <-rm.ctx.Done():
			return
		}
	}
}
