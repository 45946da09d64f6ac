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

// TestCensus looks at connections from outside of their loops, by the names that the
// application gave them, and then at how they have ended.
func TestCensus(t *testing.T) {
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
	c, err := s.Tracker().Census(t.Context(), idle.Query{Sort: idle.Oldest})
	if err != nil {
		t.Fatal(err)
	}
	page, err := c.Page(t.Context(), 0, 10)
	if err != nil || len(page) != 4 || c.Live != 4 {
		t.Fatalf("%d of %d: %v", len(page), c.Live, err)
	}
	for _, i := range page {
		if byName[i.Label] == nil || i.Owner.(*Conn) == nil {
			t.Errorf("%+v", i)
		}
		if i.Label == "bert" {
			i.End("by hand")
		}
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
