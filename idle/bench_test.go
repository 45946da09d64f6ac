package idle

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

type idleOwner struct{ Conn }

func (*idleOwner) Expire(*TimeoutError) {}

// benchTracker returns a tracker with n live connections.
func benchTracker(b *testing.B, p Policy, n int) (*Tracker, []idleOwner) {
	b.Helper()
	t, err := New(p, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { t.Close() })
	conns, hooks := make([]idleOwner, n), hooksOf(&idleOwner{})
	for i := range conns {
		if err := t.Track(&conns[i].Conn, &conns[i], hooks); err != nil {
			b.Fatal(err)
		}
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

func BenchmarkReceivedRatedHot(b *testing.B) {
	_, conns := benchTracker(b, Policy{MinReadRate: Rate{BytesPerSecond: 240, Grace: time.Minute}}, 1)
	b.ReportAllocs()
	for b.Loop() {
		conns[0].Received(64)
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
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		conns[0].Enter(other)
	}
}

// BenchmarkLook is what a pass pays for a connection that is not due.
func BenchmarkLook(b *testing.B) {
	for name, p := range map[string]Policy{"idle": minute, "many": {
		IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxAge: time.Hour, MaxAgeJitter: time.Minute,
		MinReadRate: Rate{240, time.Minute}, MinWriteRate: Rate{240, time.Minute},
	}} {
		b.Run(name, func(b *testing.B) {
			t, conns := benchTracker(b, p, 1)
			b.ReportAllocs()
			for b.Loop() {
				conns[0].shard.next(&conns[0].Conn, clock.Moment{Now: t.clock.Recent()})
			}
		})
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
	if err != nil {
		b.Fatal(err)
	}
	t := &Tracker{}
	t.init(full)
	t.driver.stopped = true
	t.clock.Tune(clock.Tuning{}) // or it would be woken, and nobody would copy it
	if t.phase, err = t.Phase(minute); err != nil {
		b.Fatal(err)
	}
	return t.newShard(nil), make([]idleOwner, n), hooksOf(&idleOwner{})
}

// trackAll tracks connections in an order that is not that of memory.
func trackAll(b *testing.B, s *Shard, conns []idleOwner, hooks *Hooks) {
	for _, i := range rand.Perm(len(conns)) {
		if err := s.Track(&conns[i].Conn, &conns[i], hooks); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkColdLook has a million connections come up that have been active meanwhile. An
// operation is all of them; ns/look is one.
func BenchmarkColdLook(b *testing.B) {
	s, conns, hooks := stillShard(b)
	trackAll(b, s, conns, hooks)
	for b.Loop() {
		b.StopTimer()
		s.clock.Shift(time.Minute)
		now := s.clock.Settled()
		for i := range conns {
			conns[i].lastIn.Store(clock.StampOf(now))
		}
		b.StartTimer()
		for more := true; more; {
			s.mu.Lock()
			more = s.collect(now)
			s.mu.Unlock()
			if len(s.jobs) > 0 {
				b.Fatal("a connection was due")
			}
		}
	}
	looks := s.checks
	if looks < b.N*len(conns) {
		b.Errorf("%d looks", looks)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(looks), "ns/look")
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

func BenchmarkTouchRandom(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, conns := benchTracker(b, minute, n)
			picks := randomOrder(n)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				conns[picks[i&(len(picks)-1)]].Touch()
			}
		})
	}
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
				t, err := New(minute, &Options{Shards: shards})
				if err != nil {
					b.Fatal(err)
				}
				defer t.Close()
				if err := t.SetCapacity(c.Capacity); err != nil {
					b.Fatal(err)
				}
				owner := remote{addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4(), Port: 1}}
				hooks := hooksOf(&owner)
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
					if err := t.Track(c, &owner, hooks); err != nil {
						b.Fatal(err)
					}
					c.Stop()
				}
			})
		}
	}
}

func randomOrder(n int) []uint32 {
	picks := make([]uint32, 1<<20)
	for i := range picks {
		picks[i] = uint32(rand.IntN(n))
	}
	return picks
}

// remote is an owner with an address.
type remote struct {
	idleOwner
	addr net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.addr }

// BenchmarkVisit visits a million connections.
func BenchmarkVisit(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes seconds to prepare")
	}
	const n = 1_000_000
	t, _ := benchTracker(b, Policy{IdleTimeout: time.Hour, MaxAge: 48 * time.Hour}, n)
	was := t.Stats()
	for b.Loop() {
		seen := 0
		if err := t.Visit(b.Context(), func(Info) { seen++ }); err != nil || seen < n {
			b.Fatal(seen, err)
		}
	}
	st := t.Stats()
	b.ReportMetric(float64((st.PassTotal-was.PassTotal).Milliseconds())/float64(b.N), "busy-ms/op")
	b.ReportMetric(float64(st.Longest.Microseconds()), "longest-pass-µs")
}

// BenchmarkTouchInAHerd touches random ones of 10,000 connections, 64 at a time, while a
// million others time out at once, and while nothing else happens. It reports the 99th
// percentile of an activity in both, and how many times as long it is in the herd.
func BenchmarkTouchInAHerd(b *testing.B) {
	if testing.Short() {
		b.Skip("seconds each")
	}
	const herd, active, slab = 1_000_000, 10_000, 64
	var calm, busy []time.Duration
	for b.Loop() {
		t, err := New(Policy{IdleTimeout: time.Hour}, &Options{Tick: defaultTick})
		if err != nil {
			b.Fatal(err)
		}
		short, err := t.Phase(Policy{IdleTimeout: 2 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		conns, hooks := make([]idleOwner, active+herd), hooksOf(&idleOwner{})
		for i := range conns {
			if err := t.Track(&conns[i].Conn, &conns[i], hooks); err != nil {
				b.Fatal(err)
			}
		}
		for i := range conns[active:] {
			conns[active+i].Enter(short)
		}
		entered := time.Now()
		touch := func(until func() bool) (took []time.Duration) {
			for !until() {
				for range 100 {
					begun := time.Now()
					for range slab {
						conns[rand.IntN(active)].Touch()
					}
					took = append(took, time.Since(begun)/slab)
				}
			}
			return took
		}
		calm = append(calm, touch(func() bool { return time.Since(entered) > 1500*time.Millisecond })...)
		touch(func() bool { return t.live() < active+herd })
		busy = append(busy, touch(func() bool { return t.live() == active })...)
		t.Close()
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100])
	}
	b.ReportMetric(p99(calm), "calm-p99-ns")
	b.ReportMetric(p99(busy), "herd-p99-ns")
	b.ReportMetric(p99(busy)/p99(calm), "herd/calm")
}
