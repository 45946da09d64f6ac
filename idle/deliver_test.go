package idle

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
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

// deliverer tracks a peer whose reader delivers a byte while it is probed.
func (r *rig) deliverer() *peer {
	p := &peer{}
	p.probe = func() SocketState {
		p.Received(1)
		p.PauseRead()
		if p.probes == 1 && !p.Deliver() {
			r.Error("timed out too early")
		}
		p.AwaitRead() // the limit has passed, so this wait ends the connection, but not before a look of its own
		return SocketState{}
	}
	return r.with(p)
}

func TestDeliverInLastLook(t *testing.T) {
	onBoth(t, Policy{PhaseTimeout: time.Second}, nil, func(r *rig) {
		d := r.deliverer()
		r.dies(d, time.Now(), time.Second, ReasonPhase)
		if d.probes != 2 {
			r.Errorf("examined %d times, want 2: a byte was delivered after the first", d.probes)
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

var serverHooks = &Hooks{Expire: func(o any, _ *TimeoutError) {
	s := o.(*server)
	s.ended.Store(true)
	if s.answering.Load() {
		s.cut.Store(true)
	}
}}

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
			tr := newTracker(t, p, &Options{Tick: tick, Shards: 2})
			check(t, tr.SetCapacity(Capacity{MaxConns: 1 << 20}))
			var delivered, ended, cut atomic.Int64
			deadline := time.Now().Add(raceTime())
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(deadline) && cut.Load() == 0 {
						s := new(server)
						if err := tr.Track(&s.conn, s, serverHooks); err != nil {
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

// TestEnterStoresThePhaseLast loads the words of a connection while it enters phases, in the order in which snapshot
// does. All limits of the phase that is seen must have begun.
func TestEnterStoresThePhaseLast(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("needs two processors")
	}
	tr := newTracker(t, Policy{IdleTimeout: time.Hour}, nil)
	s := tr.newShard(nil) // which tells the time that is stored in it
	c := &Conn{shard: s, hooks: plainHooks()}
	c.in.at.Store(waiting)
	enter := func(tick int64) {
		s.now.Store(clock.StampOf(tick))
		p := &Phase{tracker: tr}
		p.now.Store(&limits{soonest: uint32(tick), beats: 1})
		c.Enter(p)
	}
	enter(1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := int64(2); ; tick++ {
			select {
			case <-stop:
				return
			default:
				enter(tick)
			}
		}
	}()
	bad := 0
	for begun := time.Now(); time.Since(begun) < raceTime()/4; {
		entered := int64(c.limits().soonest)
		snap := c.snapshot(clock.Moment{Now: entered})
		for _, tick := range []int64{snap.began, snap.used, snap.beat, snap.pinged, snap.in.at / int64(tr.clock.Tick)} {
			if tick < entered {
				bad++
			}
		}
	}
	close(stop)
	<-stopped
	if bad > 0 {
		t.Errorf("%d times a limit was seen to have begun before its phase", bad)
	}
}

// TestRestartTakesBackNothing restarts limits from a time before that of what began meanwhile, as when the restart
// is preempted.
func TestRestartTakesBackNothing(t *testing.T) {
	const wait, paid = int64(time.Hour) | waiting, 2 * int64(time.Hour)
	c := Conn{shard: &Shard{clock: clock.New(time.Millisecond, func() {})}}
	c.in.at.Store(wait)
	c.in.paid.Store(paid)
	c.in.rewait(500, true)
	c.letOff(&c.in)
	if now, had := c.in.at.Load(), c.in.paid.Load(); now != wait+2 || had != paid { // letOff moves it by a trifle
		t.Errorf("the wait began at %d, and %d is paid", now, had)
	}
}
