//go:build proof

package idlegnet

import (
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestVisit looks at connections from outside of their loops, by the names that the
// application gave them, and then at how they have ended.
func TestVisit(t *testing.T) {
	ends := make(chan idle.End, 4)
	h := &handler{}
	h.traffic = func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		c.SetContext(string(b))
		s := h.wrapped.Conn(c)
		if silent, age := s.Idle(), s.Age(); age < silent || age > patience {
			t.Errorf("%v old, idle for %v", age, silent)
		}
		c.Write(b)
		return gnet.None
	}
	s := serve(t, h, idle.Policy{IdleTimeout: time.Hour}, &Options{Idle: idle.Options{
		Label: func(owner any) string {
			name, _ := owner.(*Conn).Gnet().Context().(string)
			return name
		},
		OnEnds: func(all []idle.End) {
			for _, e := range all {
				ends <- e
			}
		},
	}}, gnet.WithNumEventLoop(2))
	clients := map[string]net.Conn{}
	for _, name := range []string{"anna", "bert", "cleo", "dora"} {
		clients[name] = dial(t, s.address)
		exchange(t, clients[name], name)
	}
	visited := map[string]bool{}
	if err := s.Tracker().Visit(t.Context(), func(i idle.Info) {
		name := i.Label()
		if clients[name] == nil || i.Owner.(*Conn) == nil {
			t.Errorf("%q: %+v", name, i)
		}
		if visited[name] = true; name == "bert" {
			i.End("by hand")
		}
	}); err != nil || len(visited) != 4 {
		t.Fatalf("visited %v: %v", visited, err)
	}
	clients["anna"].Close()
	await(t, func() bool { return s.Stats().Live == 2 })
	s.stop(t)
	for range visited {
		e := receive(t, ends)
		if (e.Reason == idle.ReasonShed) != (e.Label == "bert") || !visited[e.Label] {
			t.Errorf("%+v", e)
		}
		delete(visited, e.Label)
	}
}
