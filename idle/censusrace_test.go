package idle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbandonedCensuses takes censuses while a loop is blocked, and gives each of them up.
// They do not pile up, so what has to walk later does not wait for them.
func TestAbandonedCensuses(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.guests(5)
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		first, second := r.walk(func(*Shard, *Conn) {}), r.walk(func(*Shard, *Conn) {})
		for range 20 {
			ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
			if _, err := r.Census(ctx, Query{}); err == nil {
				r.Error("the census of a blocked loop is finished")
			}
			cancel()
		}
		if waiting := len(r.shard.walks.waiting); waiting != 2 {
			r.Errorf("%d walks wait, and somebody waits for two of them", waiting)
		}
		close(goOn)
		<-first
		<-second
		if c := r.census(Query{}); c.Live != 5 {
			r.Errorf("%+v", c)
		}
	})
}

// TestAbandonedPages does the same with pages. Nobody is asked for labels in vain.
func TestAbandonedPages(t *testing.T) {
	labels := 0
	opts := &Options{Label: func(any) string { labels++; return "" }}
	inBubble(t, Policy{IdleTimeout: time.Hour}, opts, true, func(r *rig) {
		r.guests(5)
		c := r.census(Query{Sort: MostIdle})
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		for range 20 {
			ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
			if _, err := c.Page(ctx, 0, 5); err == nil {
				r.Error("the page of a blocked loop is finished")
			}
			cancel()
		}
		close(goOn)
		r.wait(time.Second)
		if labels > 0 {
			r.Errorf("%d labels were asked for in vain", labels)
		}
		if len(r.page(c, 0, 9)) != 5 || labels != 5 {
			r.Errorf("%d labels for the next page", labels)
		}
	})
}

// TestPageOfATrackerThatCloses asks for a page while a loop is blocked, and closes the
// tracker. The loop runs no pass after that.
func TestPageOfATrackerThatCloses(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.guests(5)
		c := r.census(Query{Sort: MostIdle})
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		failed := make(chan error, 1)
		go func() {
			_, err := c.Page(context.Background(), 0, 5)
			failed <- err
		}()
		synctest.Wait()
		if _, err := r.Tracker.Close(); err != nil {
			r.Error(err)
		}
		close(goOn)
		r.wait(time.Second)
		select {
		case err := <-failed:
			if err != ErrClosed {
				r.Error(err)
			}
		default:
			r.Error("Page waits for a closed tracker")
		}
	})
}

// TestAnsweredIsNoMiss lists a peer that has answered after a miss. Nothing has pinged it
// since.
func TestAnsweredIsNoMiss(t *testing.T) {
	onBoth(t, Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: time.Second, Misses: 3}}, nil, func(r *rig) {
		f := &forecaster{}
		r.track(&f.Conn, f)
		misses := func() (listed int, key uint32) {
			c := r.census(Query{Sort: MostMisses})
			return r.page(c, 0, 1)[0].Misses, -c.list[0].Last
		}
		r.wait(11500 * time.Millisecond)
		if n, key := misses(); n != 1 || key != 1 {
			r.Errorf("%d misses, sorted by %d", n, key)
		}
		r.do(f.Touch)
		if n, key := misses(); n != 0 || key != 0 {
			r.Errorf("%d misses after an answer, sorted by %d", n, key)
		}
		r.wait(11500 * time.Millisecond)
		if n, _ := misses(); n != 1 {
			r.Errorf("%d misses", n)
		}
		if err := r.SetPolicy(Policy{IdleTimeout: time.Hour}); err != nil {
			r.Fatal(err)
		}
		if n, key := misses(); n != 0 || key != 0 {
			r.Errorf("%d misses without a heartbeat, sorted by %d", n, key)
		}
	})
}

// TestOverdue has a census meet a connection that is overdue, as its loop is blocked.
func TestOverdue(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		g := r.guests(1)[0]
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		r.wait(time.Minute)
		n := newCount(r.Tracker, Query{Sort: NextToEnd})
		n.meet(r.shard, &g.conn)
		if c := n.finish(); c.Ending(0) != 1 || c.Ending(time.Minute) != 1 || c.Len() != 1 {
			r.Errorf("%d are overdue, %d are to end", c.Ending(0), c.Ending(time.Minute))
		}
		close(goOn)
	})
}

// TestNextToEnd lists a connection without limits, which comes last.
func TestNextToEnd(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(3)
		exempt, soon := r.phaseOf(Policy{}), r.phaseOf(Policy{IdleTimeout: time.Minute})
		r.do(func() {
			all[0].conn.Enter(exempt)
			all[2].conn.Enter(soon)
		})
		for i, info := range r.page(r.census(Query{Sort: NextToEnd}), 0, 3) {
			if want := all[2-i]; info.Owner != want || (info.EndsBy == 0) != (i == 2) || (info.Next == "") != (i == 2) {
				r.Errorf("number %d: %+v", i, info)
			}
		}
	})
}

// TestPageAfterReplace replaces a policy, and lists a connection that the tracker has not
// looked at since. No connection ends by the old policy any more.
func TestPageAfterReplace(t *testing.T) {
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.guests(1)
		c := r.census(Query{Sort: MostIdle})
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		if err := r.SetPolicy(Policy{Name: "new", IdleTimeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		go func() {
			synctest.Wait()
			close(goOn)
		}()
		i := r.page(c, 0, 1)[0]
		if i.Phase != "new" || i.EndsIn > time.Minute+r.late() || i.NextIn != i.EndsIn {
			r.Errorf("%+v", i)
		}
	})
}
