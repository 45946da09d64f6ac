package idle

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
)

func (r *rig) census(q Query) *Census {
	r.Helper()
	c, err := r.Census(r.Context(), q)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func (r *rig) page(c *Census, from, n int) []Info {
	r.Helper()
	page, err := c.Page(r.Context(), from, n)
	if err != nil {
		r.Fatal(err)
	}
	return page
}

// TestCensusCounts takes a census of connections whose times are known.
func TestCensusCounts(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		chat := r.phaseOf(Policy{Name: "chat", IdleTimeout: time.Hour, NoInterrupt: true})
		var all []*guest
		for i := range 100 {
			g := &guest{n: i}
			r.track(&g.conn, g)
			all = append(all, g)
			if i%4 == 0 {
				r.do(func() { g.conn.Enter(chat) })
			}
			r.wait(100 * time.Millisecond)
		}
		r.do(func() { all[0].conn.Touch() }) // the oldest is the least idle
		c := r.census(Query{Sort: MostIdle})
		if c.Live != 100 || c.Phases[""].Live != 75 || c.Phases["chat"].Live != 25 || c.Phases["chat"].Phase != chat || c.Len() != 100 {
			r.Errorf("%+v", c)
		}
		if c.Idle.Count() != 100 || c.Age.Count() != 100 || c.Age.SumMicros < 490e6 || c.Age.SumMicros > 505e6 {
			r.Errorf("idle %v, age %v", c.Idle, c.Age)
		}
		for i, info := range r.page(c, 0, 3) {
			if g := info.Owner.(*guest); g.n != i+1 || info.Busy != (g.n%4 == 0) {
				r.Errorf("number %d of the most idle is %+v", i, info)
			}
		}
		if page := r.page(c, 99, 10); len(page) != 1 || page[0].Owner != all[0] || page[0].Phase != "chat" {
			r.Errorf("the last page: %+v", page)
		}
		if page := r.page(c, 100, 10); len(page) != 0 {
			r.Errorf("beyond the end: %+v", page)
		}
		c = r.census(Query{Sort: Oldest, Phases: []string{"chat", "nobody"}})
		if c.Len() != 25 || c.Live != 100 {
			r.Errorf("in chat: %d of %d", c.Len(), c.Live)
		}
		for i, info := range r.page(c, 0, 25) {
			if info.Owner != all[4*i] {
				r.Errorf("number %d of the oldest is %+v", i, info)
			}
		}
		r.do(func() { all[0].conn.Stop(); all[4].conn.Stop() })
		page := r.page(c, 0, 3)
		if len(page) != 1 || page[0].Owner != all[8] {
			r.Errorf("after two have ended: %+v", page)
		}
		stale := Info{of: c.list[1].Conn}
		stale.End("test")
		page[0].End("test")
		r.wait(time.Second)
		if all[4].err != nil || all[8].err == nil || all[8].err.Cause != "test" {
			r.Errorf("ended by hand: %v, %v", all[4].err, all[8].err)
		}
		if c := r.census(Query{}); c.Len() != 0 || c.Live != 97 {
			r.Errorf("unlisted: %+v", c)
		}
	})
}

// A sender is a peer for which bytes wait.
type sender struct {
	peer
	unsent int
}

func (s *sender) Unsent() int {
	if s.unsent == math.MaxInt32 {
		panic("unsent")
	}
	return s.unsent
}

// TestUnsent counts bytes that wait for peers: those of connections on which a write waits.
func TestUnsent(t *testing.T) {
	quiet := &Options{Logger: slog.New(slog.DiscardHandler)}
	onBoth(t, Policy{IdleTimeout: time.Hour}, quiet, func(r *rig) {
		var all []*sender
		for _, unsent := range []int{100, 2_000_000_000, 0, 7000, -5, math.MaxInt32} {
			s := &sender{unsent: unsent}
			r.track(&s.Conn, s)
			r.do(s.AwaitWrite)
			all = append(all, s)
		}
		paused := &sender{unsent: 1 << 20} // no write waits
		r.track(&paused.Conn, paused)
		r.track(&new(peer).Conn, new(peer)) // cannot tell
		c := r.census(Query{Sort: MostUnsent})
		if c.Live != 8 || c.Unsent != 2_000_007_100 || c.WithUnsent != 3 {
			r.Errorf("%d bytes for %d of %d", c.Unsent, c.WithUnsent, c.Live)
		}
		for i, info := range r.page(c, 0, 3) {
			if want := []*sender{all[1], all[3], all[0]}[i]; info.Owner != want || info.Unsent != want.unsent {
				r.Errorf("number %d: %+v", i, info)
			}
		}
		r.do(all[1].PauseWrite)
		r.do(func() { all[3].Stop() })
		if c := r.census(Query{}); c.Unsent != 100 || c.WithUnsent != 1 {
			r.Errorf("later: %d bytes for %d", c.Unsent, c.WithUnsent)
		}
		if n := r.Stats().Panics; n != 2 { // one in each census
			r.Errorf("%d panics", n)
		}
	})
}

func TestMostMisses(t *testing.T) {
	onBoth(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: 10 * time.Second, Misses: 5}}, nil, func(r *rig) {
		silent, quick := &forecaster{}, &forecaster{}
		r.track(&quick.Conn, quick)
		r.track(&silent.Conn, silent)
		for range 30 {
			r.wait(time.Second)
			r.do(quick.Touch)
		}
		page := r.page(r.census(Query{Sort: MostMisses}), 0, 2)
		if page[0].Owner != silent || page[0].Misses != 2 || page[1].Misses != 0 || page[0].Next != "miss" || page[1].Next != "ping" {
			r.Errorf("%+v", page)
		}
	})
}

func TestIdleAndAge(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := r.peer()
		r.wait(3 * time.Second)
		r.do(p.TouchOut)
		r.wait(2 * time.Second)
		r.do(func() {
			if d := p.Idle() - 2*time.Second; d > 0 || d < -2*r.opts.Tick {
				r.Errorf("idle for %v", p.Idle())
			}
			if d := p.Age() - 5*time.Second; d > 0 || d < -2*r.opts.Tick {
				r.Errorf("%v old", p.Age())
			}
		})
	})
}

func TestCensusOfNonsense(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(3)
		if _, err := r.Census(r.Context(), Query{Sort: 77}); err == nil || !strings.Contains(err.Error(), "Query.Sort is 77") {
			r.Error(err)
		}
		c := r.census(Query{Sort: MostIdle})
		if _, err := c.Page(r.Context(), -1, 5); err == nil || !strings.Contains(err.Error(), "from -1") {
			r.Error(err)
		}
		r.Tracker.Close()
		if _, err := r.Census(r.Context(), Query{}); err != ErrClosed {
			r.Error(err)
		}
		if _, err := c.Page(r.Context(), 0, 1); err != ErrClosed {
			r.Error(err)
		}
	})
}

// TestCensusOfABlockedLoop gives up when its context is done, and the next census is
// complete.
func TestCensusOfABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.guests(5)
		c := r.census(Query{Sort: MostIdle})
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if _, err := r.Census(ctx, Query{}); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		if _, err := c.Page(ctx, 0, 5); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		close(goOn)
		if c := r.census(Query{Sort: MostIdle}); c.Live != 5 || len(r.page(c, 0, 9)) != 5 {
			r.Errorf("%+v", c)
		}
	})
}
