package idle

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestDeliver(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		delivers := func(c *Conn, want bool, what string) {
			r.Helper()
			r.do(func() {
				if got := c.Deliver(); got != want {
					r.Errorf("%s: Deliver = %v", what, got)
				}
			})
		}
		delivers(new(Conn), true, "not tracked")
		p, closed := r.peer(), r.peer()
		delivers(&p.Conn, true, "live")
		r.do(func() { closed.Stop() })
		delivers(&closed.Conn, true, "closed")
		r.dies(p, time.Now(), time.Second, ReasonIdle)
		delivers(&p.Conn, false, "timed out")
	})
}

// A deliverer has its reader deliver a byte while it is probed.
type deliverer struct {
	peer
	examined int
}

func (d *deliverer) Examine() SocketState {
	d.examined++
	d.Received(1)
	d.PauseRead()
	if d.examined == 1 && !d.Deliver() {
		panic("timed out too early")
	}
	d.AwaitRead() // the limit has passed, so this wait ends the connection, but not before a look of its own
	return SocketState{}
}

func TestDeliverInLastLook(t *testing.T) {
	onBoth(t, Policy{PhaseTimeout: time.Second}, nil, func(r *rig) {
		d := new(deliverer)
		r.track(&d.Conn, d)
		r.dies(&d.peer, time.Now(), time.Second, ReasonPhase)
		if d.examined != 2 {
			r.Errorf("examined %d times, want 2: a byte was delivered after the first", d.examined)
		}
	})
}

// A server answers each byte that it gets.
type server struct {
	conn      Conn
	answering atomic.Bool
	ended     atomic.Bool
	cut       atomic.Bool
}

func (s *server) Expire(*TimeoutError) {
	s.ended.Store(true)
	if s.answering.Load() {
		s.cut.Store(true)
	}
}

// read waits for a byte as long as about the limit, and answers it.
func (s *server) read(wait, answer time.Duration) {
	s.conn.AwaitRead()
	for begun := time.Now(); time.Since(begun) < wait; {
		runtime.Gosched()
	}
	s.conn.Received(1)
	s.conn.PauseRead()
	if s.conn.Deliver() {
		s.answering.Store(true)
		time.Sleep(answer)
		s.answering.Store(false)
	} else {
		for !s.ended.Load() { // it must have been decided
			time.Sleep(time.Millisecond)
		}
	}
}

// TestRaceDeliver has bytes come at about the moment at which a connection ends, because
// nothing has come, because it is evicted, or because of EndIfIdle. Each byte is answered,
// or its connection has ended.
func TestRaceDeliver(t *testing.T) {
	const tick = time.Millisecond
	for name, p := range map[string]Policy{
		"read":  {ReadTimeout: 3 * tick},
		"rate":  {MinReadRate: Rate{1000, 3 * tick}},
		"order": {ReadTimeout: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := New(p, &Options{Tick: tick, Shards: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			if err := tr.SetCapacity(Capacity{MaxConns: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			var delivered, ended, cut atomic.Int64
			deadline := time.Now().Add(raceTime())
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(deadline) && cut.Load() == 0 {
						s := new(server)
						if err := tr.Track(&s.conn, s, hooksOf(s)); err != nil {
							t.Error(err)
							return
						}
						for !s.ended.Load() && time.Now().Before(deadline) {
							s.read(2*tick+rand.N(4*tick), 3*tick)
							delivered.Add(1)
						}
						if s.cut.Load() {
							cut.Add(1)
						}
						if !s.conn.Stop() {
							ended.Add(1)
						}
					}
				})
			}
			for name == "order" && time.Now().Before(deadline) {
				tr.EvictIdle(2)
				n := 0
				_ = tr.Visit(t.Context(), func(i Info) {
					if n++; n < 3 {
						i.EndIfIdle("test")
					}
				})
				time.Sleep(tick)
			}
			wg.Wait()
			if cut.Load() > 0 {
				t.Error("a byte was delivered, and its answer was cut")
			}
			t.Logf("%d bytes, %d connections ended", delivered.Load(), ended.Load())
		})
	}
}
