package idle

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

type idleOwner struct{ Conn }

// benchTracker returns a tracker with n live connections.
func benchTracker(b *testing.B, p Policy, n int) (*Tracker, []idleOwner) {
	b.Helper()
	t, err := New(p, nil)
	check(b, err)
	b.Cleanup(func() { t.Close() })
	conns, hooks := make([]idleOwner, n), plainHooks()
	for i := range conns {
		check(b, t.Track(&conns[i].Conn, &conns[i], hooks))
	}
	return t, conns
}

var minute = Policy{IdleTimeout: time.Minute}

func BenchmarkTouchHot(b *testing.B) {
	_, conns := benchTracker(b, minute, 1)
	b.ReportAllocs()
	for b.Loop() {
		conns[0].Touch()
	}
}

// BenchmarkReadCycle is what a net.Conn pays for a Read.
func BenchmarkReadCycle(b *testing.B) {
	_, conns := benchTracker(b, minute, 1)
	b.ReportAllocs()
	for b.Loop() {
		conns[0].AwaitRead()
		conns[0].Received(64)
		conns[0].PauseRead()
	}
}

func BenchmarkEnter(b *testing.B) {
	t, conns := benchTracker(b, minute, 1)
	other, err := t.Phase(Policy{ReadTimeout: time.Minute})
	check(b, err)
	b.ReportAllocs()
	for b.Loop() {
		conns[0].Enter(other)
	}
}

// stillShard returns a shard without a driver, and a million connections for it, or fewer
// with -short.
func stillShard(b *testing.B) (*Shard, []idleOwner, *Hooks) {
	n := 1_000_000
	if testing.Short() {
		n = 1000
	}
	full, err := (*Options)(nil).complete(defaultTick)
	check(b, err)
	t := &Tracker{}
	t.init(full)
	t.driver.stopped = true
	t.clock.Tune(clock.Tuning{}) // or it would be woken, and nobody would copy it
	if t.phase, err = t.Phase(minute); err != nil {
		b.Fatal(err)
	}
	return t.newShard(nil), make([]idleOwner, n), plainHooks()
}

// trackAll tracks connections in an order that is not that of memory.
func trackAll(b *testing.B, s *Shard, conns []idleOwner, hooks *Hooks) {
	for _, i := range rand.Perm(len(conns)) {
		check(b, s.Track(&conns[i].Conn, &conns[i], hooks))
	}
}

// BenchmarkColdExpiry has a million connections time out. An operation is all of them;
// ns/expiry is one.
func BenchmarkColdExpiry(b *testing.B) {
	s, conns, hooks := stillShard(b)
	for b.Loop() {
		b.StopTimer()
		clear(conns) // a Conn is for one connection
		trackAll(b, s, conns, hooks)
		s.clock.Shift(time.Hour)
		b.StartTimer()
		s.pass(s.clock.Elapsed(), 0)
	}
	if n := len(s.conns.all); n > 0 {
		b.Errorf("%d are live", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(conns)), "ns/expiry")
}

// BenchmarkTrackClose is what a connection pays for its beginning and its end, without a
// Capacity and with one that it does not reach.
func BenchmarkTrackClose(b *testing.B) {
	for _, shards := range []int{2, 64} {
		for _, c := range []struct {
			name string
			Capacity
		}{{"unlimited", Capacity{}}, {"most", Capacity{MaxConns: 1000}}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, shards), func(b *testing.B) {
				t := newTracker(b, minute, &Options{Shards: shards})
				check(b, t.SetCapacity(c.Capacity))
				owner := remote{addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4(), Port: 1}}
				hooks := plainHooks()
				conns := make([]Conn, 0)
				b.ReportAllocs()
				for b.Loop() {
					if len(conns) == 0 {
						b.StopTimer()
						conns = make([]Conn, 4096)
						b.StartTimer()
					}
					c := &conns[0]
					conns = conns[1:]
					if err := t.Track(c, &owner, hooks); err != nil { // check would cost more
						b.Fatal(err)
					}
					c.Stop()
				}
			})
		}
	}
}

// remote is an owner with an address.
type remote struct {
	idleOwner
	addr net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.addr }
