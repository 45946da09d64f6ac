package idle

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestInfo visits connections whose times are known.
func TestInfo(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		chat := r.phaseOf(Policy{Name: "chat", IdleTimeout: time.Minute, NoInterrupt: true})
		begun := time.Now()
		busy, quiet, free := r.peer(), r.peer(), r.peer()
		r.do(func() { free.Enter(r.phaseOf(Policy{Name: "free"})) })
		r.wait(3 * time.Second)
		r.do(func() { busy.Enter(chat); busy.TouchOut() })
		r.wait(2 * time.Second)
		r.do(func() {
			if d := busy.Idle() - 2*time.Second; d > 0 || d < -2*r.opts.Tick {
				r.Errorf("idle for %v", busy.Idle())
			}
		})
		all := r.infos()
		age := time.Since(begun)
		for p, want := range map[*peer]Info{
			busy:  {Phase: "chat", Age: age, Idle: age - 3*time.Second, Busy: true, EndsIn: 3*time.Second + time.Minute - age, EndsBy: ReasonIdle},
			quiet: {Age: age, Idle: age, EndsIn: time.Hour - age, EndsBy: ReasonIdle},
			free:  {Phase: "free", Age: age, Idle: age},
		} {
			i := all[p]
			near := func(got, want time.Duration) bool { return (got - want).Abs() <= r.late() }
			if i.Owner != p || i.Phase != want.Phase || i.Busy != want.Busy || i.EndsBy != want.EndsBy ||
				!near(i.Age, want.Age) || !near(i.Idle, want.Idle) || !near(i.EndsIn, want.EndsIn) || i.Age > age {
				r.Errorf("%+v, want %+v", i, want)
			}
		}
		if _, err := r.Drain(Drain{Duration: time.Minute}); err != nil {
			r.Fatal(err)
		}
		r.wait(r.late())
		for _, i := range r.infos() {
			if !i.Busy && (i.EndsBy != ReasonDrain || i.EndsIn > time.Minute+r.late()) {
				r.Errorf("in a drain: %+v", i)
			}
		}
	})
}

// TestInfoOfABlockedLoop describes connections of a loop that was blocked: one that is overdue, and
// then one whose policy was replaced meanwhile. The function is called in the same pass, before
// anybody else has looked at the connection.
func TestInfoOfABlockedLoop(t *testing.T) {
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Second}, nil, true, func(r *rig) {
		p := r.peer()
		resume := r.block()
		r.wait(time.Minute)
		if i, ok := r.shard.info(&p.Conn, r.clock.Moment()); !ok || i.EndsIn > -59*time.Second+r.late() || i.EndsBy != ReasonIdle {
			r.Errorf("overdue: %+v", i)
		}
		resume()
	})
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		p := r.peer()
		resume := r.block()
		if err := r.SetPolicy(Policy{Name: "new", IdleTimeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		w := r.goVisiting()
		resume()
		r.finishes(w, 1)
		if i := w.visits()[0]; i.Owner != p || i.Phase != "new" || i.EndsIn > time.Minute+r.late() {
			r.Errorf("replaced: %+v", i)
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

// TestUnsent asks for bytes that wait for peers: those of connections on which a write waits.
func TestUnsent(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, &Options{Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
		want := map[any]int{}
		for _, unsent := range []int{100, 2_000_000_000, 0, -5, math.MaxInt32} {
			s := &sender{unsent: unsent}
			r.track(&s.Conn, s)
			r.do(s.AwaitWrite)
			if want[s] = max(unsent, 0); unsent == math.MaxInt32 {
				want[s] = 0
			}
		}
		paused := &sender{unsent: 1 << 20} // no write waits
		r.track(&paused.Conn, paused)
		want[paused], want[r.peer()] = 0, 0 // the latter can't tell
		if err := r.Visit(r.Context(), func(i Info) {
			if n, ok := want[i.Owner]; !ok || i.Unsent() != n {
				r.Errorf("%d bytes, want %d", i.Unsent(), n)
			}
			delete(want, i.Owner)
		}); err != nil || len(want) > 0 {
			r.Errorf("%d weren't visited: %v", len(want), err)
		}
		if n := r.Stats().Panics; n != 1 {
			r.Errorf("%d panics", n)
		}
	})
}

// TestVisitEnds ends connections in a visit and after it, busy or not.
func TestVisitEnds(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(20)
		r.do(func() { all[3].conn.PauseRead() })
		var later []Info
		r.endInVisit(func(i *Info) {
			if g := i.Owner.(*guest); g.n < 5 {
				i.End("in the visit")
			} else if g.n < 10 {
				later = append(later, *i)
			}
		})
		for _, i := range later {
			i.End("later")
			i.End("once more")
		}
		r.wait(r.late())
		for i, g := range all {
			if g.conn.Live() != (i >= 10) || i < 10 && g.err.Reason != ReasonShed {
				r.Errorf("guest %d: %v", i, g.err)
			}
		}
		if st := r.Stats(); st.Shed != 10 || st.Causes["in the visit"] != 5 || st.Causes["later"] != 5 {
			r.Errorf("%+v", st)
		}
	})
}

// TestEndIfIdle ends those that are idle: not those that are busy, have input that isn't read, or
// have been used since they were visited, in the visit or after it.
func TestEndIfIdle(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		idle, busy, unread, inVisit, later := r.peer(), r.peer(), r.prober(func() SocketState { return SocketState{Unread: true} }), r.peer(), r.peer()
		r.wait(time.Minute)
		r.do(busy.PauseRead)
		var of Info
		r.endInVisit(func(i *Info) {
			switch i.Owner {
			case inVisit:
				defer inVisit.Touch() // before the pass that ends connections, or at least its check
				i.EndIfIdle("test")
				return
			case later:
				of = *i
				return
			}
			i.EndIfIdle("test")
		})
		r.do(later.Touch)
		of.EndIfIdle("test")
		r.wait(time.Second)
		if idle.Live() || !busy.Live() || !unread.Live() || !later.Live() || len(idle.expired) != 1 || idle.expired[0].Cause != "test" {
			r.Errorf("live: %v, %v, %v, %v; %v", idle.Live(), busy.Live(), unread.Live(), later.Live(), idle.expired)
		}
		if !inVisit.Live() {
			r.Error("ended, though it was used right after EndIfIdle")
		}
		r.endInVisit(func(i *Info) { // all have been idle since
			if i.Owner == later || i.Owner == inVisit {
				of = *i
				i.EndIfIdle("test")
			}
		})
		of.EndIfIdle("of one that has ended")
		r.wait(time.Second)
		if later.Live() || inVisit.Live() || r.Stats().Shed != 3 {
			r.Errorf("live: %v, %v: %+v", later.Live(), inVisit.Live(), r.Stats())
		}
	})
}

// TestDeliverBesideEndIfIdle delivers a byte while it's decided whether the connection is idle. It
// isn't ended, and its answer isn't cut.
func TestDeliverBesideEndIfIdle(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		d := new(deliverer)
		r.track(&d.Conn, d)
		r.wait(time.Second)
		for want := 1; want <= 2; want++ {
			r.endInVisit(func(i *Info) { i.EndIfIdle("test") })
			if d.examined != want || d.Live() != (want == 1) {
				r.Errorf("examined %d times, want %d; ended by %v", d.examined, want, d.expired)
			}
			r.wait(time.Second)
		}
	})
}

// TestEndIfIdleBesidePings: with ExplicitUse, pings aren't use.
func TestEndIfIdleBesidePings(t *testing.T) {
	onBoth(t, Policy{Heartbeat: every20s, ExplicitUse: true}, nil, func(r *rig) {
		var all []*answerer
		for range 20 {
			all = append(all, r.answerer(time.Second/10))
		}
		r.wait(65 * time.Second)
		all[7].receive()
		r.wait(5 * time.Second)
		r.endInVisit(func(i *Info) {
			if i.Idle >= 30*time.Second {
				i.EndIfIdle("test")
			}
		})
		if n := r.Stats().Shed; n != 19 || !all[7].Live() {
			r.Errorf("%d of 20 ended; the used one is live: %v", n, all[7].Live())
		}
	})
}

// TestIdleAfterAStall has a connection be active while the driver stands still, so that its stamp is
// old. It isn't idle for longer because of that.
func TestIdleAfterAStall(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, func(r *rig) {
		p, quiet, stalls := r.peer(), r.peer(), &slowToExpire{took: time.Second}
		r.track(&stalls.Conn, stalls)
		r.wait(100 * time.Millisecond)
		p.Touch()
		r.wait(r.opts.Tick)
		stalls.End("") // Expire is called by the driver
		r.wait(900 * time.Millisecond)
		p.Touch()
		active := time.Now()
		r.wait(200 * time.Millisecond)
		all := r.infos()
		if since := time.Since(active); all[p].Idle > since || all[quiet].Idle < time.Second {
			r.Errorf("%v after it was active: %+v; the quiet one: %+v", since, all[p], all[quiet])
		}
		p.End("")
		r.wait(r.late())
		if len(p.expired) != 1 || p.expired[0].Elapsed > time.Since(active) {
			r.Errorf("%v after it was active: %v", time.Since(active), p.expired)
		}
	})
}

// TestEndOneByHand ends a busy connection. A second End has no effect.
func TestEndOneByHand(t *testing.T) {
	onBoth(t, Policy{Name: "chat", IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
		g := r.guests(1)[0]
		time.Sleep(3 * time.Second)
		waiting := 0
		r.do(func() {
			g.conn.End("banned")
			for range 100 {
				g.conn.End("once more")
			}
			if r.shard != nil { // on its loop, so no pass comes in between
				waiting = len(r.shard.mail.tasks)
			}
		})
		if waiting > 1 {
			t.Errorf("%d tasks wait for one connection", waiting)
		}
		r.wait(100 * time.Millisecond)
		if g.err == nil || g.err.Reason != ReasonShed || g.err.Cause != "banned" || !g.toldAt.IsZero() {
			t.Fatalf("%v", g.err)
		}
		if s := g.err.Error(); s != "i/o timeout: chat: ended by shed (banned), idle for "+g.err.Elapsed.String() || g.err.Elapsed < 3*time.Second || g.err.Elapsed > 4*time.Second {
			t.Error(s)
		}
		g.conn.End("dead")
		r.wait(time.Second)
		if st := r.Stats(); st.Shed != 1 || len(st.Causes) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestEndDuringOnTimeout ends a connection while OnTimeout is running, and within it, even
// if that says to keep the connection.
func TestEndDuringOnTimeout(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		within := &keeper{}
		within.keep = func(*TimeoutError) bool { within.End("within"); return true }
		r.track(&within.Conn, within)
		beside := &keeper{keep: func(*TimeoutError) bool { time.Sleep(100 * time.Millisecond); return true }}
		r.track(&beside.Conn, beside)
		r.wait(time.Second + r.late())
		beside.End("beside")
		r.wait(100*time.Millisecond + r.late())
		for _, k := range []*keeper{within, beside} {
			if len(k.asked) != 1 || len(k.expired) != 1 || k.expired[0].Reason != ReasonShed {
				t.Errorf("asked %v, expired %v", k.asked, k.expired)
			}
		}
		if st := r.Stats(); st.Shed != 2 || st.Live != 0 || st.Causes["within"] != 1 || st.Causes["beside"] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReplaceBesideABlockedLoop replaces a policy again and again. The healthy shards follow
// each time, and the visits of the other one do not pile up.
func TestReplaceBesideABlockedLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		all := r.peers(10)
		for n := range 20 {
			if err := r.SetPolicy(Policy{IdleTimeout: time.Duration(40-n) * time.Hour}); err != nil {
				r.Fatal(err)
			}
			r.wait(time.Second)
		}
		if err := r.SetPolicy(Policy{IdleTimeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		begun := time.Now()
		for _, p := range all {
			r.dies(p, begun.Add(-20*time.Second), time.Minute, ReasonIdle)
		}
		if n := len(r.loops[0].visits.all); n != 1 {
			r.Errorf("%d visits wait for the blocked loop, want 1", n)
		}
	})
}

// onStuck runs a test on a tracker with a loop that never runs what it is given, and on whose
// shard there is a connection.
func onStuck(t *testing.T, p Policy, test func(*rig)) {
	onDriver(t, p, nil, func(r *rig) {
		stuck, err := r.NewShard(func(func()) error { return nil })
		if err != nil {
			r.Fatal(err)
		}
		p := &peer{}
		if err := stuck.Track(&p.Conn, p, hooksOf(p)); err != nil {
			r.Fatal(err)
		}
		test(r)
		if _, err := stuck.Close(); err != nil {
			r.Error(err)
		}
	})
}

// A forecaster is a peer that remembers when it ended, and answers no ping.
type forecaster struct {
	Conn
	endedAt time.Time
	err     *TimeoutError
}

func (f *forecaster) Ping() error              { return nil }
func (f *forecaster) OnDrain()                 {}
func (f *forecaster) Expire(err *TimeoutError) { f.endedAt, f.err = time.Now(), err }

// somePolicies set all limits, alone and together.
func somePolicies() []Policy {
	const s = time.Second
	return []Policy{
		{IdleTimeout: 3 * s},
		{ReadTimeout: 5 * s, Name: "read"},
		{WriteTimeout: 2 * s, IdleTimeout: 40 * s, Name: "write"},
		{MaxAge: 9 * s, MaxAgeJitter: 20 * s, MaxAgeGrace: 4 * s, Name: "age"},
		{Heartbeat: Heartbeat{Interval: 7 * s, Timeout: s, Misses: 3}, Name: "pings"},
		{Heartbeat: Heartbeat{Interval: 300 * time.Millisecond, Timeout: 400 * time.Millisecond, Misses: 20}, PhaseTimeout: 30 * s, Name: "often"},
		{Heartbeat: Heartbeat{Interval: 11 * s, Passive: true}, Name: "beats"},
		{MinReadRate: Rate{100, 6 * s}, MinWriteRate: Rate{100, 3 * s}, Name: "rates"},
		{IdleTimeout: 50 * s, ExplicitUse: true, Heartbeat: Heartbeat{Interval: 7 * s, Timeout: 3 * s}, Name: "late"},
		{Name: "unlimited"},
	}
}

// TestForecast has connections in all kinds of states, visits them, and leaves them alone. They end
// when EndsIn has said, to the tick.
func TestForecast(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		var phases []*Phase
		for _, p := range somePolicies() {
			phases = append(phases, r.phaseOf(p))
		}
		var all []*forecaster
		for range 2000 {
			f := &forecaster{}
			r.track(&f.Conn, f)
			all = append(all, f)
			r.do(func() { f.Enter(phases[rng.IntN(len(phases))]) })
		}
		for range 500 {
			f := all[rng.IntN(len(all))]
			r.do(func() {
				[]func(){f.Touch, f.TouchOut, f.Use, f.Beat, f.PauseRead, f.AwaitRead, f.AwaitWrite, func() { f.Received(500) }}[rng.IntN(8)]()
			})
			r.wait(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		asOf, infos := map[any]time.Time{}, map[any]Info{}
		if err := r.Visit(r.Context(), func(i Info) { asOf[i.Owner], infos[i.Owner] = time.Now(), i }); err != nil {
			r.Fatal(err)
		}
		r.wait(time.Minute)
		ends := 0
		for _, f := range all {
			i, ok := infos[f]
			switch {
			case !ok && f.err == nil:
				r.Errorf("not visited")
			case !ok:
			case f.err == nil:
				if i.EndsBy != 0 && i.EndsIn < 59*time.Second {
					r.Errorf("%+v has not ended", i)
				}
			default:
				ends++
				if in := f.endedAt.Sub(asOf[f]); i.EndsIn != in || i.EndsBy != f.err.Reason {
					r.Fatalf("ended after %v by %v; the forecast was %+v", in, f.err, i)
				}
			}
		}
		if ends < 500 {
			r.Errorf("only %d have ended", ends)
		}
	})
}
