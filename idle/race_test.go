package idle

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// These tests are for the race detector, in real time: all that may happen at
// once does, with timeouts of a few ticks. They say nothing about when.

func raceTime() time.Duration {
	if testing.Short() {
		return 200 * time.Millisecond
	}
	return time.Second
}

var racePolicy = Policy{
	IdleTimeout: 3 * time.Millisecond, ReadTimeout: 2 * time.Millisecond, WriteTimeout: 2 * time.Millisecond,
	MaxAge: 20 * time.Millisecond, MaxAgeJitter: 5 * time.Millisecond, MaxAgeGrace: 2 * time.Millisecond,
	Heartbeat:   Heartbeat{Interval: time.Millisecond, Timeout: time.Millisecond, Misses: 2},
	MinReadRate: Rate{1000, 5 * time.Millisecond}, MinWriteRate: Rate{1000, 5 * time.Millisecond},
}

// A racer is one tracking of a Conn, which counts its outcomes.
type racer struct {
	outcomes atomic.Int32
	expired  atomic.Int32
	n        int
	label    string
	unread   bool // there is unread input now and then
}

func (o *racer) Expire(*TimeoutError)         { o.outcomes.Add(1); o.expired.Add(1) }
func (o *racer) Ping() error                  { return nil }
func (o *racer) OnTimeout(*TimeoutError) bool { o.n++; return o.n%3 == 0 } // never at once with itself
func (o *racer) OnDrain()                     {}
func (o *racer) Examine() SocketState {
	return SocketState{In: 5 * time.Millisecond, Unread: o.unread && rand.IntN(8) == 0 || o.expired.Load() == 1}
}

type racingReaper struct{ racer }

func (o *racingReaper) Reap() {}

// slotted is a Conn with those who use it. The lock is that of a server which
// has all users of a connection gone before it serves the next one.
type slotted struct {
	conn  *Conn // nil before the first one
	using sync.RWMutex
	cur   atomic.Pointer[racer]
}

func TestRace(t *testing.T) {
	tr, err := New(racePolicy, &Options{Tick: time.Millisecond, Shards: 2, ReapDelay: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	idle, _ := tr.Phase(Policy{IdleTimeout: 2 * time.Millisecond})
	exempt, _ := tr.Phase(Policy{})
	phases := []*Phase{tr.phase, idle, exempt}

	var mu sync.Mutex
	var all []*racer
	track := func(s *slotted) {
		s.using.Lock()
		defer s.using.Unlock()
		o := &racer{}
		var owner any = o
		if rand.IntN(2) == 0 {
			r := &racingReaper{}
			o, owner = &r.racer, r
		}
		if s.conn != nil && s.conn.Stop() {
			s.cur.Load().outcomes.Add(1)
		}
		c := &Conn{}
		switch err := tr.Track(c, owner, hooksOf(owner)); err {
		case nil:
			s.conn = c
			s.cur.Store(o)
			mu.Lock()
			all = append(all, o)
			mu.Unlock()
		case ErrClosed:
		default:
			t.Error(err)
		}
	}
	slots := make([]slotted, 20)
	for i := range slots {
		track(&slots[i])
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	// Half of the connections are left to time out.
	every := func(rest time.Duration, do func(*slotted)) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s := &slots[rand.IntN(len(slots)/2)]
					s.using.RLock()
					do(s)
					s.using.RUnlock()
					time.Sleep(rest)
				}
			}
		})
	}
	var reading, writing [20]sync.Mutex // one reader and one writer at a time
	at := func(s *slotted) int {
		for i := range slots {
			if s == &slots[i] {
				return i
			}
		}
		panic("no slot")
	}
	every(20*time.Microsecond, func(s *slotted) { s.conn.Touch() })
	every(20*time.Microsecond, func(s *slotted) { s.conn.Touch(); s.conn.Beat() })
	every(20*time.Microsecond, func(s *slotted) {
		i := at(s)
		reading[i].Lock()
		defer reading[i].Unlock()
		s.conn.AwaitRead()
		s.conn.Received(rand.IntN(100))
		s.conn.PauseRead()
	})
	every(20*time.Microsecond, func(s *slotted) {
		i := at(s)
		writing[i].Lock()
		defer writing[i].Unlock()
		s.conn.AwaitWrite()
		s.conn.Sent(rand.IntN(100))
		s.conn.PauseWrite()
	})
	every(100*time.Microsecond, func(s *slotted) { s.conn.Enter(phases[rand.IntN(3)]) })
	every(time.Millisecond, func(s *slotted) { tr.Stats(); s.conn.Live() })
	for range 2 {
		every(time.Millisecond, func(s *slotted) {
			if s.conn.Stop() {
				s.cur.Load().outcomes.Add(1)
			}
		})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Microsecond):
					track(&slots[rand.IntN(len(slots))])
				}
			}
		})
	}
	time.Sleep(raceTime())
	live, err := tr.Close()
	if err != nil {
		t.Error(err)
	}
	close(stop)
	wg.Wait()
	for _, o := range live {
		switch o := o.(type) {
		case *racer:
			o.outcomes.Add(1)
		case *racingReaper:
			o.outcomes.Add(1)
		}
	}
	st := tr.Stats()
	expired := uint64(0)
	for _, o := range all {
		expired += uint64(o.expired.Load())
		if n := o.outcomes.Load(); n != 1 {
			t.Errorf("a connection has %d outcomes", n)
		}
	}
	timedOut := uint64(0)
	for _, n := range st.TimedOut {
		timedOut += n
	}
	if st.Tracked != uint64(len(all)) || st.Live != 0 || timedOut != expired || st.Tracked != st.Closed+timedOut || st.Panics > 0 {
		t.Errorf("tracked %d, expired %d: %+v", len(all), expired, st)
	}
	if expired == 0 || st.Closed == 0 {
		t.Errorf("nothing happened: %+v", st)
	}
}

// TestRaceTrackerClose closes a tracker while connections come and go.
func TestRaceTrackerClose(t *testing.T) {
	for begun := time.Now(); time.Since(begun) < raceTime()/2; {
		tr, err := New(racePolicy, &Options{Tick: time.Millisecond, Shards: 3})
		if err != nil {
			t.Fatal(err)
		}
		var tracked, outcomes, handed atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					o := &racingOwner{outcomes: &outcomes}
					if tr.Track(&o.conn, o, hooksOf(o)) != nil {
						return
					}
					tracked.Add(1)
					o.conn.Touch()
					if rand.IntN(2) == 0 && o.conn.Stop() {
						outcomes.Add(1)
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		live, err := tr.Close()
		if err != nil {
			t.Fatal(err)
		}
		handed.Store(int64(len(live)))
		wg.Wait()
		if got := outcomes.Load() + handed.Load(); got != tracked.Load() {
			t.Fatalf("%d tracked, %d outcomes: %+v", tracked.Load(), got, tr.Stats())
		}
	}
}

type racingOwner struct {
	conn     Conn
	outcomes *atomic.Int64
}

func (o *racingOwner) Expire(*TimeoutError) { o.outcomes.Add(1) }
func (o *racingOwner) Ping() error          { return nil }
