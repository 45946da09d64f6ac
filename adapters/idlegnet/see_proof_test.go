//go:build proof

package idlegnet

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestVisit looks at connections from outside of their loops, by the names that the
// application gave them, and then at how they have ended.
func TestVisit(t *testing.T) {
	var mu sync.Mutex
	ends := map[string]idle.End{}
	opts := &Options{Idle: idle.Options{
		Label: func(owner any) string {
			name, _ := owner.(*Conn).Gnet().Context().(string)
			return name
		},
		OnEnds: func(all []idle.End) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range all {
				ends[e.Label] = e
			}
		},
	}}
	var h *Handler
	opened := make(chan struct{})
	user := &handler{traffic: func(c gnet.Conn) gnet.Action {
		<-opened
		b, _ := c.Next(-1)
		c.SetContext(string(b))
		s := h.Conn(c)
		if silent, age := s.Idle(), s.Age(); age < silent || age > patience {
			t.Errorf("%v old, idle for %v", age, silent)
		}
		c.Write(b)
		return gnet.None
	}}
	s := serve(t, user, idle.Policy{IdleTimeout: time.Hour}, opts, tcp(), gnet.WithNumEventLoop(2))
	h = s.Handler
	close(opened)
	byName := map[string]net.Conn{}
	for _, name := range []string{"anna", "bert", "cleo", "dora"} {
		byName[name] = dial(t, s.address)
		exchange(t, byName[name], name)
	}
	visited := map[string]bool{}
	if err := s.Tracker().Visit(t.Context(), func(i idle.Info) {
		name := i.Label()
		if byName[name] == nil || i.Owner.(*Conn) == nil {
			t.Errorf("%q: %+v", name, i)
		}
		if visited[name] = true; name == "bert" {
			i.End("by hand")
		}
	}); err != nil || len(visited) != 4 {
		t.Fatalf("visited %v: %v", visited, err)
	}
	byName["anna"].Close()
	byName["bert"].Read(make([]byte, 1))
	for st := s.Stats(); st.Live > 2; st = s.Stats() {
		time.Sleep(time.Millisecond)
	}
	s.stop(t)
	for name, reason := range map[string]idle.Reason{"anna": 0, "bert": idle.ReasonShed, "cleo": 0, "dora": 0} {
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			mu.Lock()
			e, told := ends[name]
			mu.Unlock()
			if told && e.Reason != reason || time.Since(start) > patience {
				t.Errorf("%s: %+v", name, e)
			}
			if told || time.Since(start) > patience {
				break
			}
		}
	}
}
