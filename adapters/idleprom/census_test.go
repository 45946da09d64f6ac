package idleprom

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

// block adds an event loop that does nothing until release is called.
func block(t *testing.T, tr *idle.Tracker) (release func()) {
	t.Helper()
	passes := make(chan func(), 64)
	shard, err := tr.NewShard(func(pass func()) error { passes <- pass; return nil })
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		go func() {
			for pass := range passes {
				pass()
			}
		}()
	})
	t.Cleanup(func() {
		release()
		passes <- func() { shard.Close() }
		synctest.Wait()
		close(passes)
	})
	return release
}

func TestPhases(t *testing.T) {
	virtually(t, idle.Policy{IdleTimeout: 30 * time.Second}, func(t *testing.T, tr *idle.Tracker, c *Collector) {
		soon := phase(t, tr, idle.Policy{Name: "soon", PhaseTimeout: 5 * time.Second})
		twin := phase(t, tr, idle.Policy{Name: "soon", PhaseTimeout: time.Hour})
		track(t, tr, 4)
		for i, c := range track(t, tr, 5) {
			c.Enter([]*idle.Phase{soon, twin}[i%2])
		}
		for i, c := range track(t, tr, 2) { // two names, one label
			c.Enter(phase(t, tr, idle.Policy{Name: []string{"bad\xff", "bad\xfe"}[i], IdleTimeout: 30 * time.Second}))
		}
		for i := range 3 {
			conn := new(idle.Conn)
			if err := tr.Track(conn, conn, &idle.Hooks{Expire: hooks.Expire, Unsent: func(any) int { return 1000 * i }}); err != nil {
				t.Fatal(err)
			}
			conn.AwaitWrite()
		}
		began := time.Now()
		g := gather(t, c)
		g.want(t, "connections", "", 14)
		g.want(t, "phase_connections", "phase=(unnamed)", 7)
		g.want(t, "phase_connections", "phase=soon", 5)
		g.want(t, "phase_connections", "phase=bad\uFFFD", 2)
		g.want(t, "ending_connections", "within=1", 0)
		g.want(t, "ending_connections", "within=10", 3)
		g.want(t, "ending_connections", "within=60", 12)
		g.want(t, "census_late_total", "", 0)
		g.want(t, "unsent_bytes", "", 3000)
		g.want(t, "unsent_connections", "", 2)
		if at := g.value(t, "census_timestamp_seconds", "") - float64(began.UnixMilli())/1e3; at < 0 || at > 1 {
			t.Errorf("the census began %v s after the scrape", at)
		}
		time.Sleep(40 * time.Second)
		g = gather(t, c)
		g.want(t, "phase_connections", "phase=(unnamed)", 0)
		g.want(t, "phase_connections", "phase=soon", 2)
		g.want(t, "phase_connections_ended_total", "phase=soon,reason=PhaseTimeout", 3)
		g.want(t, "phase_connections_ended_total", "phase=(unnamed),reason=IdleTimeout", 7)
	})
}

// TestLate: while a loop is blocked, a scrape has the last census.
func TestLate(t *testing.T) {
	virtually(t, idle.Policy{IdleTimeout: time.Hour}, func(t *testing.T, tr *idle.Tracker, c *Collector) {
		track(t, tr, 2)
		release := block(t, tr)
		g := gather(t, c)
		g.lacks(t, ofCensus...)
		g.want(t, "census_late_total", "", 1)
		g.want(t, "connections", "", 2)
		release()
		time.Sleep(census.Every)

		g = gather(t, c)
		g.want(t, "phase_connections", "phase=(unnamed)", 2)
		g.want(t, "census_late_total", "", 1)
		at := g.value(t, "census_timestamp_seconds", "")

		time.Sleep(census.Every) // until that census is too old
		release = block(t, tr)
		track(t, tr, 1)
		const scrapes = 10
		var all sync.WaitGroup
		for range scrapes { // all at once
			all.Go(func() {
				g := gather(t, c)
				g.want(t, "connections", "", 3)
				g.want(t, "phase_connections", "phase=(unnamed)", 2)
				g.want(t, "census_timestamp_seconds", "", at)
			})
		}
		all.Wait()
		release()
		time.Sleep(census.Every)
		g = gather(t, c)
		g.want(t, "phase_connections", "phase=(unnamed)", 3)
		g.want(t, "census_late_total", "", 1+scrapes)
	})
}

// TestClosed: what Stats has remains, even if the tracker is closed during a scrape.
func TestClosed(t *testing.T) {
	virtually(t, idle.Policy{IdleTimeout: time.Second}, func(t *testing.T, tr *idle.Tracker, c *Collector) {
		track(t, tr, 2)
		time.Sleep(2 * time.Second)
		track(t, tr, 3)
		gather(t, c).want(t, "phase_connections", "phase=(unnamed)", 3)
		time.Sleep(census.Every) // until that census is too old

		release := block(t, tr)
		began, done := time.Now(), make(chan gathering)
		go func() { done <- gather(t, c) }()
		synctest.Wait()
		if live, err := tr.Close(); len(live) != 3 || err != nil {
			t.Fatal(live, err)
		}
		during := <-done
		if took := time.Since(began); took >= census.Patience {
			t.Errorf("the scrape takes %v", took)
		}
		release()
		after := gather(t, c)
		for _, g := range []gathering{during, after} {
			g.want(t, "connections_ended_total", "reason=IdleTimeout", 2)
			g.want(t, "phase_connections_ended_total", "phase=(unnamed),reason=IdleTimeout", 2)
			g.want(t, "census_late_total", "", 0)
			g.lacks(t, ofCensus...)
		}
		after.want(t, "connections", "", 0) // during the scrape Close was handing them back
		after.want(t, "connections_closed_total", "", 0)
	})
}

func TestNoCensus(t *testing.T) {
	tr, _ := newTracker(t, idle.Policy{IdleTimeout: time.Hour}, nil)
	track(t, tr, 1)
	g := gather(t, collectorOf(t, tr, &Options{NoCensus: true}))
	g.want(t, "connections", "", 1)
	g.lacks(t, append(ofCensus, "census_late_total")...)
}

// TestScrapeWhileEnding: while connections come and go no count goes back.
func TestScrapeWhileEnding(t *testing.T) {
	tr, c := newTracker(t, idle.Policy{Name: "a", IdleTimeout: 5 * time.Millisecond}, &idle.Options{Tick: time.Millisecond})
	b := phase(t, tr, idle.Policy{Name: "b", PhaseTimeout: 2 * time.Millisecond})
	stop := make(chan struct{})
	var all, scrapers sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				for i, c := range track(t, tr, 20) {
					switch i % 4 {
					case 0:
						c.Stop()
					case 1:
						c.Enter(b)
					case 2:
						c.End("why")
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
				}
			}
		})
	}
	for range 2 {
		scrapers.Go(func() {
			var before gathering
			for range 30 {
				g := gather(t, c)
				g.hasGrown(t, before)
				before = g
			}
		})
	}
	scrapers.Wait()
	close(stop)
	all.Wait()
}

func BenchmarkScrape(b *testing.B) {
	for _, bench := range []struct {
		name     string
		n        int
		noCensus bool
	}{{"conns=1000", 1000, false}, {"conns=100000", 100_000, false}, {"conns=100000,census=no", 100_000, true}} {
		b.Run(bench.name, func(b *testing.B) {
			tr, _ := newTracker(b, idle.Policy{IdleTimeout: time.Hour}, nil)
			track(b, tr, bench.n)
			b.ReportAllocs()
			for b.Loop() {
				reg := prometheus.NewRegistry()
				reg.MustRegister(collectorOf(b, tr, &Options{NoCensus: bench.noCensus})) // which has no census yet
				if _, err := reg.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
