package idle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestForecastOfAMillion leaves a million connections alone, and counts how many end in
// each tick.
func TestForecastOfAMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const n = 1_000_000
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: 30 * time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		pinged, err := tr.Phase(Policy{Name: "pinged", Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: 2 * time.Second, Misses: 3}})
		if err != nil {
			t.Fatal(err)
		}
		ended := map[time.Duration]int{} // by the time since begun
		begun := time.Now()
		hooks := &Hooks{Ping: func(any) error { return nil }, Expire: func(any, *TimeoutError) { ended[time.Since(begun)]++ }}
		conns := make([]Conn, n)
		for i := range conns {
			if err := tr.Track(&conns[i], &conns[i], hooks); err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				conns[i].Enter(pinged)
			}
			if i%10_000 == 0 {
				time.Sleep(20 * time.Millisecond)
			}
		}
		c, err := tr.Census(t.Context(), Query{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Live != n || c.Phases["pinged"].Live != (n+2)/3 {
			t.Fatalf("%d live, %d pinged", c.Live, c.Phases["pinged"].Live)
		}
		time.Sleep(time.Until(c.At.Add(time.Minute + time.Second)))
		synctest.Wait()
		sum := 0
		for d := time.Duration(0); d <= time.Minute; d += tr.opts.Tick {
			sum = 0
			for at, ends := range ended {
				if !begun.Add(at).After(c.At.Add(d)) {
					sum += ends
				}
			}
			if got := c.Ending(d); got != sum {
				t.Fatalf("%d end within %v by the forecast; %d did", got, d, sum)
			}
		}
		if sum != n {
			t.Errorf("%d of %d have ended", sum, n)
		}
	})
}

// BenchmarkCensus takes a census of a million connections, some of which are active
// meanwhile. Listed ones are sorted.
func BenchmarkCensus(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes seconds to prepare")
	}
	for _, c := range []struct {
		name string
		sort Sort
	}{{"counted", Unlisted}, {"listed", MostIdle}, {"forecast", NextToEnd}} {
		b.Run(c.name, func(b *testing.B) {
			const n = 1_000_000
			t, conns := benchTracker(b, Policy{IdleTimeout: time.Hour, MaxAge: 48 * time.Hour}, n)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						for range 1000 {
							conns[rand.IntN(n)].Touch()
						}
					}
				}
			}()
			was := t.Stats()
			for b.Loop() {
				if c, err := t.Census(b.Context(), Query{Sort: c.sort}); err != nil || c.Live != n {
					b.Fatal(c, err)
				}
			}
			st := t.Stats()
			close(stop)
			<-stopped
			b.ReportMetric(float64((st.PassTotal-was.PassTotal).Milliseconds())/float64(b.N), "busy-ms/op")
			b.ReportMetric(float64(st.Longest.Microseconds()), "longest-pass-µs")
		})
	}
}

// BenchmarkPage describes connections of a census.
func BenchmarkPage(b *testing.B) {
	for _, size := range []int{1, 50, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			t, _ := benchTracker(b, minute, 10_000)
			c, err := t.Census(b.Context(), Query{Sort: MostIdle})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if page, err := c.Page(b.Context(), 0, size); err != nil || len(page) != size {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}

// BenchmarkTrackCloseTold is what the end of a connection costs that is recorded, and
// that is told to OnEnds as well.
func BenchmarkTrackCloseTold(b *testing.B) {
	for name, onEnds := range map[string]func([]End){"recorded": nil, "told": func([]End) {}} {
		b.Run(name, func(b *testing.B) {
			t, err := New(minute, &Options{OnEnds: onEnds, Label: func(any) string { return "label" }})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			t.RecentEnds()
			var o idleOwner
			hooks := hooksOf(&o)
			b.ReportAllocs()
			for b.Loop() {
				o.Conn = Conn{}
				if err := t.Track(&o.Conn, &o, hooks); err != nil {
					b.Fatal(err)
				}
				o.Stop()
			}
			b.ReportMetric(float64(t.Stats().EndsLost)/float64(b.N), "lost/op")
		})
	}
}

// BenchmarkPart is what the histograms cost for each connection that ends.
func BenchmarkPart(b *testing.B) {
	t, conns := benchTracker(b, minute, 1)
	p := conns[0].endRecord()
	for b.Loop() {
		t.own[0].counts.part(&p, t.clock)
	}
}
