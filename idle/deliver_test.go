package idle

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// TestDeliverBeforeALateWrite delivers the end of a request late, because the loop was blocked.
// Then the response begins to wait, on an account of writing that seems overdue until the
// kernel is asked. ReadTotal must not end the connection in that time.
func TestDeliverBeforeALateWrite(t *testing.T) {
	p := Policy{ReadTotal: time.Second, MinWriteRate: Rate{1000, time.Second}}
	inBubble(t, p, nil, true, func(r *rig) {
		c := r.prober(func() SocketState { return SocketState{Unreported: 1 << 20} })
		r.do(func() {
			c.AwaitWrite()
			time.Sleep(3 * time.Second)
			c.Received(100)
			c.PauseRead()
			if !c.Deliver() {
				r.Fatal("not delivered")
			}
			c.PauseWrite()
			c.AwaitWrite()
		})
		r.lives(&c.peer, 5*time.Second)
	})
}

// TestDeliverLetsNoWriteOff delivers input after a write has begun to wait beyond its limit.
// The pause after that write is no excuse, as without the input.
func TestDeliverLetsNoWriteOff(t *testing.T) {
	inBubble(t, Policy{MinWriteRate: Rate{1000, time.Second}}, nil, true, func(r *rig) {
		p := r.peer()
		r.do(func() {
			p.AwaitWrite()
			time.Sleep(3 * time.Second)
			p.PauseWrite()
			p.AwaitWrite()
			p.PauseWrite()
			p.PauseRead()
			if !p.Deliver() {
				r.Error("not delivered")
			}
		})
		r.wait(time.Second)
		if len(p.expired) != 1 || p.expired[0].Reason != ReasonMinWriteRate {
			r.Errorf("ended: %v", p.expired)
		}
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
	d.AwaitRead() // ReadTotal is over, so this wait ends the connection, but not before a look of its own
	return SocketState{}
}

func TestDeliverInLastLook(t *testing.T) {
	onBoth(t, Policy{ReadTotal: time.Second}, nil, func(r *rig) {
		d := new(deliverer)
		r.track(&d.Conn, d)
		r.dies(&d.peer, time.Now(), time.Second, ReasonReadTotal)
		if d.examined != 2 {
			r.Errorf("examined %d times, want 2: a byte was delivered after the first", d.examined)
		}
	})
}

// A wait begins after ReadTotal is over and brings a byte, before the next pass looks.
func TestDeliverAfterTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{ReadTotal: time.Second}, &Options{Tick: defaultTick})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		passes := make(chan func(), 10)
		shard, err := tr.NewShard(func(pass func()) error { passes <- pass; return nil })
		if err != nil {
			t.Fatal(err)
		}
		p := new(peer)
		if err := shard.Track(&p.Conn, p, hooksOf(p)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // and the loop is busy
		p.PauseRead()
		p.AwaitRead()
		p.Received(1)
		p.PauseRead()
		if !p.Deliver() {
			t.Error("Deliver = false")
		}
		for range 10 {
			synctest.Wait()
			for len(passes) > 0 {
				(<-passes)()
			}
			time.Sleep(defaultTick)
		}
		if len(p.expired) > 0 {
			t.Errorf("a byte was delivered, and then the connection ended: %v", p.expired)
		}
		shard.Close()
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

func (s *server) Reap() {}

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
		"total": {ReadTotal: 3 * tick},
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
