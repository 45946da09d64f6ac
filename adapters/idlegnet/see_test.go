package idlegnet

import (
	"fmt"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestVisit looks at connections from outside of their loops, by the names that the
// application gave them, and then at how they have ended.
func TestVisit(t *testing.T) {
	var ends chan idle.End
	opts := &Options{Idle: idle.Options{
		Label: func(owner any) string { return fmt.Sprint(owner.(*Conn).Gnet().(*fake).fd) },
		OnEnds: func(all []idle.End) {
			for _, e := range all {
				ends <- e
			}
		},
	}}
	virtually(t, &handler{traffic: discard}, idle.Policy{IdleTimeout: time.Hour}, opts, func(w *world) {
		ends = make(chan idle.End, 4) // of the bubble
		var conns []*fake
		for range 4 {
			c, conn := w.open()
			conns = append(conns, c)
			time.Sleep(time.Minute)
			w.send(c, 1)
			time.Sleep(time.Minute)
			w.do(func() {
				if silent, age := conn.Idle(), conn.Age(); age < silent+time.Minute-20*ms || silent < time.Minute-20*ms || silent > time.Minute {
					w.Errorf("%v old, idle for %v", age, silent)
				}
			})
		}
		visited := map[string]idle.Reason{}
		if err := w.Tracker().Visit(w.Context(), func(i idle.Info) {
			name := i.Label()
			if visited[name] = 0; name == fmt.Sprint(conns[1].fd) {
				i.End("by hand")
				visited[name] = idle.ReasonShed
			}
		}); err != nil || len(visited) != 4 {
			w.Fatalf("visited %v: %v", visited, err)
		}
		time.Sleep(time.Second)
		for _, c := range conns {
			w.do(func() { w.Handler.OnClose(c, nil) })
		}
		for range conns {
			e := receive(w, ends)
			if reason, ok := visited[e.Label]; !ok || e.Reason != reason {
				w.Errorf("%+v", e)
			}
			delete(visited, e.Label)
		}
	})
}
