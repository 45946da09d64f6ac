package pressure

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A readout is what a Read of a test returns.
type readout struct{ atomic.Uint64 }

func (r *readout) set(v float64) { r.Store(math.Float64bits(v)) }

func (r *readout) read() (float64, error) { return math.Float64frombits(r.Load()), nil }

func readingOf(v float64) *readout {
	r := &readout{}
	r.set(v)
	return r
}

func newTracker(t *testing.T, p idle.Policy) *idle.Tracker {
	t.Helper()
	tr, err := idle.New(p, &idle.Options{Tick: 10 * time.Millisecond, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// A rig is a tracker in a bubble.
type rig struct {
	*testing.T
	*idle.Tracker
}

func inBubble(t *testing.T, p idle.Policy, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&rig{t, newTracker(t, p)}) })
}

func (r *rig) follow(c Config) *Follower {
	r.Helper()
	f, err := Follow(r.Tracker, c)
	if err != nil {
		r.Fatal(err)
	}
	return f
}

func (r *rig) phaseOf(p idle.Policy) *idle.Phase {
	r.Helper()
	phase, err := r.Phase(p)
	if err != nil {
		r.Fatal(err)
	}
	return phase
}

// isAt checks a pressure.
func (r *rig) isAt(f *Follower, p float64) {
	r.Helper()
	synctest.Wait()
	if got := f.Pressure(); math.Abs(got-p) > 1e-9 {
		r.Errorf("the pressure is %v, want %v", got, p)
	}
}

// idles checks which IdleTimeout is in force in a phase.
func (r *rig) idles(phase *idle.Phase, limit time.Duration) {
	r.Helper()
	synctest.Wait()
	if got := phase.Policy().IdleTimeout; got != limit {
		r.Errorf("%q has an IdleTimeout of %v, want %v", phase.Policy().Name, got, limit)
	}
}

// A silent connection is one on which nothing moves.
type silent struct {
	conn  idle.Conn
	begun time.Time
	ended chan *idle.TimeoutError
}

var hooks = &idle.Hooks{Expire: func(owner any, err *idle.TimeoutError) { owner.(*silent).ended <- err }}

func (r *rig) silent(phase *idle.Phase) *silent {
	r.Helper()
	s := &silent{begun: time.Now(), ended: make(chan *idle.TimeoutError, 1)}
	if err := r.Track(&s.conn, s, hooks); err != nil {
		r.Fatal(err)
	}
	s.conn.Enter(phase)
	return s
}

// dies waits for the end of s, and checks when it comes.
func (r *rig) dies(s *silent, after time.Duration) *idle.TimeoutError {
	r.Helper()
	err := <-s.ended
	if took := time.Since(s.begun); took < after || took > after+time.Second/10 {
		r.Errorf("ended after %v, want %v", took, after)
	}
	return err
}

var (
	slow = idle.Policy{Name: "slow", IdleTimeout: 600 * time.Second, WriteTimeout: time.Minute}
	fast = idle.Policy{IdleTimeout: 2 * time.Second}
)

// TestOpenConnsFollow is Envoy's example, for connections that are open.
func TestOpenConnsFollow(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		memory := readingOf(0.5)
		f := r.follow(Config{Read: memory.read, From: 0.85, Full: 0.95, Policy: fast})
		r.isAt(f, 0)
		c := r.silent(r.Initial())
		time.Sleep(10500 * time.Millisecond)
		memory.set(0.92)
		time.Sleep(time.Second)
		r.isAt(f, 0.7)
		const limit = 181400 * time.Millisecond
		if err := r.dies(c, limit); err.Limit != limit || err.Phase != "slow" {
			r.Errorf("the error says %v", err)
		}
		late := r.silent(r.Initial())
		memory.set(0.99)
		r.dies(late, 2*time.Second)
		r.isAt(f, 1)
		f.Stop()
		select {
		case <-f.Done():
		default:
			r.Error("not done after Stop")
		}
		if f.Stop(); r.Policy() != slow || f.Pressure() != 0 {
			r.Errorf("after Stop: %+v, %v", r.Policy(), f.Pressure())
		}
	})
}

// TestFalls has an open connection follow back to the policy at rest.
func TestFalls(t *testing.T) {
	inBubble(t, idle.Policy{IdleTimeout: time.Minute}, func(r *rig) {
		memory := readingOf(1)
		f := r.follow(Config{Read: memory.read, Policy: idle.Policy{IdleTimeout: 30 * time.Second}, Every: 500 * time.Millisecond})
		c := r.silent(r.Initial())
		time.Sleep(100 * time.Millisecond)
		memory.set(0.4)
		time.Sleep(4500 * time.Millisecond)
		r.isAt(f, 1) // for ten readings
		time.Sleep(500 * time.Millisecond)
		r.isAt(f, 0.4)
		r.idles(r.Initial(), 48*time.Second)
		memory.set(0)
		time.Sleep(5 * time.Second)
		r.isAt(f, 0)
		r.idles(r.Initial(), time.Minute)
		r.dies(c, time.Minute)
	})
}

// TestPolicyAtRest has policies replaced while there is pressure.
func TestPolicyAtRest(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		exempt := r.phaseOf(idle.Policy{Name: "exempt"})
		other := r.phaseOf(idle.Policy{Name: "other", IdleTimeout: time.Second})
		f := r.follow(Config{Read: readingOf(0.5).read, Policy: fast, Phases: map[*idle.Phase]idle.Policy{exempt: fast}})
		r.idles(r.Initial(), 301*time.Second)
		r.idles(exempt, 0) // off at rest
		if f.Rest(r.Initial()) != slow || f.Rest(exempt) != (idle.Policy{Name: "exempt"}) || f.Rest(other).IdleTimeout != time.Second {
			r.Errorf("at rest: %+v, %+v, %+v", f.Rest(r.Initial()), f.Rest(exempt), f.Rest(other))
		}
		longer := idle.Policy{Name: "slow", IdleTimeout: 100 * time.Second, PhaseTimeout: time.Hour}
		for _, phase := range []*idle.Phase{r.Initial(), exempt} {
			if err := phase.SetPolicy(longer); err != nil {
				r.Fatal(err)
			}
		}
		if f.Rest(exempt) != longer {
			r.Errorf("replaced: %+v", f.Rest(exempt))
		}
		time.Sleep(1500 * time.Millisecond) // the next reading
		if want := (idle.Policy{Name: "slow", IdleTimeout: 51 * time.Second, PhaseTimeout: time.Hour}); r.Policy() != want || exempt.Policy() != want {
			r.Errorf("in force: %+v, %+v; want %+v", r.Policy(), exempt.Policy(), want)
		}
		if f.Rest(r.Initial()) != longer {
			r.Errorf("at rest: %+v", f.Rest(r.Initial()))
		}
		r.SetPolicy(idle.Policy{IdleTimeout: time.Second}) // tighter than at full pressure
		time.Sleep(time.Second)
		r.idles(r.Initial(), time.Second)
		f.Stop()
		r.idles(r.Initial(), time.Second)
		if exempt.Policy() != longer {
			r.Errorf("at rest: %+v", exempt.Policy())
		}
	})
}

// TestReplacedByWhatFullCannotScale has a policy at rest replaced by one that is valid,
// but not together with the one at full pressure. It stays as it is.
func TestReplacedByWhatFullCannotScale(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		log := &strings.Builder{}
		f := r.follow(Config{Read: readingOf(1).read, Policy: idle.Policy{ReadTotal: time.Second}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		rate := idle.Policy{Name: "rate", MinReadRate: idle.Rate{BytesPerSecond: 10, Grace: time.Second}}
		if err := r.SetPolicy(rate); err != nil {
			r.Fatal(err)
		}
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		if r.Policy() != rate || f.Failures() != 5 {
			r.Errorf("in force: %+v; %d failures", r.Policy(), f.Failures())
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `phase \"rate\": idle: ReadTotal is 1s and MinReadRate is 10`) {
			r.Errorf("logged %q", got)
		}
	})
}

// TestAdd has a phase of another tracker follow, which is closed earlier.
func TestAdd(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		other := newTracker(r.T, slow)
		f := r.follow(Config{Read: readingOf(0.5).read, Policy: fast})
		if err := f.Add(other, other.Initial(), idle.Policy{IdleTimeout: time.Hour}); err == nil || !strings.Contains(err.Error(), "longer than the 10m0s at rest") {
			r.Errorf("got %v", err)
		}
		if err := f.Add(other, other.Initial(), fast); err != nil {
			r.Error(err)
		}
		r.idles(other.Initial(), 301*time.Second)
		other.Close()
		time.Sleep(3 * time.Second)
		f.Stop()
		if f.Failures() != 0 || other.Policy().IdleTimeout != 301*time.Second {
			r.Errorf("%d failures, %v", f.Failures(), other.Policy())
		}
		if err := f.Add(r.Tracker, r.Initial(), fast); err != nil {
			r.Errorf("after Stop: %v", err)
		}
		r.idles(r.Initial(), slow.IdleTimeout)
	})
}

// TestFailsWithoutAChange follows phases of which one can't have the policy at the present pressure,
// because it suits no capacity.
func TestFailsWithoutAChange(t *testing.T) {
	rest := idle.Policy{IdleTimeout: time.Minute, Heartbeat: idle.Heartbeat{Interval: 10 * time.Second, Timeout: time.Second, CountsAsUse: true}}
	unfit := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second}}
	inBubble(t, rest, func(r *rig) {
		if err := r.SetCapacity(idle.Capacity{MaxConns: 10, MinIdle: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		var others []*idle.Phase
		phases := map[*idle.Phase]idle.Policy{r.Initial(): unfit}
		for range 8 {
			ph := r.phaseOf(idle.Policy{IdleTimeout: time.Minute})
			others = append(others, ph)
			phases[ph] = idle.Policy{IdleTimeout: time.Second}
		}
		isAsItWas := func() {
			t.Helper()
			for _, ph := range others {
				if _, version := ph.Version(); version != 0 {
					t.Fatalf("replaced: %+v", ph.Policy())
				}
			}
		}
		for range 8 { // maps have no order
			if _, err := Follow(r.Tracker, Config{Read: readingOf(1).read, Phases: phases}); err == nil {
				t.Error("Follow has not failed")
			}
			isAsItWas()
		}

		reading := readingOf(1)
		f := r.follow(Config{Read: reading.read, Phases: map[*idle.Phase]idle.Policy{others[0]: {IdleTimeout: time.Second}}})
		if err := f.Add(r.Tracker, r.Initial(), unfit); err == nil {
			t.Error("Add has not failed")
		}
		if err := r.SetCapacity(idle.Capacity{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if p := r.Policy(); p != rest || f.Failures() != 0 {
			t.Errorf("Add has failed, and its phase follows: %+v; %d failures", p, f.Failures())
		}
	})
}

// TestSteadyPressureIsFree counts the passes that readings cause.
func TestSteadyPressureIsFree(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		memory := readingOf(0.5)
		r.follow(Config{Read: memory.read, Policy: fast})
		r.silent(r.Initial())
		time.Sleep(3500 * time.Millisecond)
		passes := r.Stats().Passes
		for i := range 60 {
			memory.set(0.5 + float64(i%5)/100)
			time.Sleep(time.Second)
		}
		if now := r.Stats().Passes; now != passes {
			r.Errorf("%d passes", now-passes)
		}
		memory.set(0.6)
		time.Sleep(time.Second)
		if r.Stats().Passes == passes {
			r.Error("the limits do not follow")
		}
	})
}

// TestRefused has everything refused that can be. Nothing changes.
func TestRefused(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		theirs, err := newTracker(r.T, slow).Phase(idle.Policy{Name: "theirs"})
		if err != nil {
			r.Fatal(err)
		}
		mine, unnamed := r.phaseOf(idle.Policy{Name: "mine", IdleTimeout: time.Second}), r.phaseOf(idle.Policy{})
		read := readingOf(1).read
		of := func(phase *idle.Phase, p idle.Policy) map[*idle.Phase]idle.Policy {
			return map[*idle.Phase]idle.Policy{phase: p}
		}
		for want, c := range map[string]Config{
			"Config.Read is nil":                {Policy: fast},
			"Every is 30ns; it must be at leas": {Read: read, Policy: fast, Every: 30},
			"From is -0.1 and Full is 0.5":      {Read: read, Policy: fast, From: -0.1, Full: 0.5},
			"From is 1 and Full is 1":           {Read: read, Policy: fast, From: 1},
			"From is 0.5 and Full is 0.5":       {Read: read, Policy: fast, From: 0.5, Full: 0.5},
			"Full is 1.1":                       {Read: read, Policy: fast, Full: 1.1},
			"Full is NaN":                       {Read: read, Policy: fast, Full: math.NaN()},
			"From is NaN":                       {Read: read, Policy: fast, From: math.NaN(), Full: 1},
			"Every is -1s":                      {Read: read, Policy: fast, Every: -time.Second},
			"Every is 999µs; it must be at lea": {Read: read, Policy: fast, Every: 999 * time.Microsecond},
			"set no limit":                      {Read: read, Policy: idle.Policy{Name: "none"}},
			"a phase is nil":                    {Read: read, Phases: of(nil, fast)},
			`phase "theirs" of another tracker`: {Read: read, Phases: of(theirs, fast)},
			`phase "slow": IdleTimeout is 1h0m0s at full pressure, longer than the 10m0s at rest`: {Read: read, Policy: idle.Policy{IdleTimeout: time.Hour}},
			`phase "mine": IdleTimeout is 2s at full pressure, longer than the 1s at rest`:        {Read: read, Policy: fast, Phases: of(mine, fast)},
			`phase "mine": at full pressure, idle: IdleTimeout is -1s`:                            {Read: read, Phases: of(mine, idle.Policy{IdleTimeout: -time.Second})},
			"at full pressure, idle: WriteTimeout is 1ns, shorter than the tick":                  {Read: read, Phases: of(unnamed, idle.Policy{WriteTimeout: 1})},
			"has returned NaN":                  {Policy: fast, Read: readingOf(math.NaN()).read},
			"has returned 1.01":                 {Policy: fast, Read: readingOf(1.01).read},
			"has returned -0.01":                {Policy: fast, Read: Highest(read, readingOf(-0.01).read)},
			"has failed: unsupported operation": {Policy: fast, Read: func() (float64, error) { return 0, errors.ErrUnsupported }},
			"has panicked: in Read":             {Policy: fast, Read: func() (float64, error) { panic("in Read") }},
		} {
			_, err := Follow(r.Tracker, c)
			if err == nil || !strings.Contains(err.Error(), want) {
				r.Errorf("got %v, want %s", err, want)
			}
			if want == "has failed: unsupported operation" && !errors.Is(err, errors.ErrUnsupported) {
				r.Errorf("%v does not match", err)
			}
		}
		r.idles(r.Initial(), slow.IdleTimeout)
		r.idles(mine, time.Second)
		r.Tracker.Close()
		if _, err := Follow(r.Tracker, Config{Read: read, Policy: fast}); !errors.Is(err, idle.ErrClosed) {
			r.Errorf("after Close: %v", err)
		}
		var none *Follower
		if none.Pressure() != 0 || none.Failures() != 0 || none.Rest(mine) != mine.Policy() {
			r.Error("a nil Follower follows something")
		}
		if err := none.Add(r.Tracker, mine, fast); err != nil {
			r.Error(err)
		}
		none.Stop()
		<-none.Done()
	})
}

// TestMisread has a Read that goes wrong in all ways, twice each.
func TestMisread(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		log := &strings.Builder{}
		var ways atomic.Int32
		f := r.follow(Config{Policy: fast, Logger: slog.New(slog.NewTextHandler(log, nil)), Read: func() (float64, error) {
			switch ways.Load() {
			case 1:
				return 1, errors.New("no descriptors left to look")
			case 2:
				return math.NaN(), nil
			case 3:
				return 1.5, nil
			case 4:
				panic("in Read")
			}
			return 0.5, nil
		}})
		time.Sleep(500 * time.Millisecond)
		for way := range int32(4) {
			ways.Store(way + 1)
			time.Sleep(2 * time.Second)
			r.isAt(f, 0.5)
			ways.Store(0)
			time.Sleep(10 * time.Second)
		}
		if f.Failures() != 8 {
			r.Errorf("%d failures were counted, want 8", f.Failures())
		}
		records := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{"Read has failed: no descriptors left to look", "Read has returned NaN", "Read has returned 1.5", "Read has panicked: in Read"}
		if len(records) != len(want) {
			r.Fatalf("logged\n%s", log)
		}
		for i, record := range records {
			if !strings.Contains(record, want[i]) || !strings.Contains(record, "pressure=0.5") {
				r.Errorf("logged %s, want %s", record, want[i])
			}
		}
	})
}

// TestEndsWithItsTracker closes trackers in two ways. That the bubble ends shows that no
// goroutine is left.
func TestEndsWithItsTracker(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"closed":  func(r *rig) { r.Tracker.Close() },
		"retired": func(r *rig) { r.CloseWhenEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, slow, func(r *rig) {
				f := r.follow(Config{Read: readingOf(1).read, Policy: fast})
				time.Sleep(time.Second)
				end(r)
				<-f.Done()
				f.Stop()
			})
		})
	}
}

// TestStopDuringRead has a Read return after Stop.
func TestStopDuringRead(t *testing.T) {
	inBubble(t, slow, func(r *rig) {
		reads, returns := atomic.Int32{}, make(chan struct{})
		f := r.follow(Config{Policy: fast, Read: func() (float64, error) {
			if reads.Add(1) > 1 {
				<-returns
			}
			return float64(reads.Load() - 1), nil
		}})
		time.Sleep(2 * time.Second)
		f.Stop()
		close(returns)
		time.Sleep(10 * time.Second)
		r.isAt(f, 0)
		r.idles(r.Initial(), slow.IdleTimeout)
		if reads.Load() != 2 {
			r.Errorf("read %d times", reads.Load())
		}
	})
}

// TestHighest has two readings, each with a range of its own.
func TestHighest(t *testing.T) {
	heap, cpu := readingOf(0), readingOf(0)
	read := Highest(Between(0.8, 1, heap.read), Between(0, 0.5, cpu.read))
	for _, test := range []struct{ heap, cpu, want float64 }{{0.5, 0, 0}, {0.9, 0, 0.5}, {0.9, 0.4, 0.8}, {1, 0.9, 1}} {
		heap.set(test.heap)
		cpu.set(test.cpu)
		if got, err := read(); math.Abs(got-test.want) > 1e-9 || err != nil {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
	cpu.set(math.NaN())
	if _, err := read(); err == nil {
		t.Error("NaN is accepted")
	}
}

// TestConcurrentReplace has policies replaced while they follow. None of them is lost.
func TestConcurrentReplace(t *testing.T) {
	tracker := newTracker(t, slow)
	memory := readingOf(0)
	f, err := Follow(tracker, Config{Read: memory.read, Policy: idle.Policy{WriteTimeout: time.Second}, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for i := range 200 {
			memory.set(float64(i%11) / 10)
			time.Sleep(time.Millisecond / 2)
		}
	})
	last := slow
	for i := range 200 {
		last.IdleTimeout = time.Duration(i+100) * time.Second
		if err := tracker.SetPolicy(last); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond / 2)
	}
	both.Wait()
	if f.Stop(); tracker.Policy() != last {
		t.Errorf("at rest: %+v, want %+v", tracker.Policy(), last)
	}
}

// TestMistakesPanic has readings combined in ways that make no sense.
func TestMistakesPanic(t *testing.T) {
	for want, f := range map[string]func(){
		"pressure: Between(0.9, 0.5)":      func() { Between(0.9, 0.5, Heap) },
		"pressure: Between(0.5, 0.5)":      func() { Between(0.5, 0.5, Heap) },
		"pressure: Between(NaN, 1)":        func() { Between(math.NaN(), 1, Heap) },
		"pressure: Between(0, 85)":         func() { Between(0, 85, Heap) },
		"pressure: Between: read is nil":   func() { Between(0, 1, nil) },
		"pressure: Highest of no readings": func() { Highest() },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, want) {
					t.Errorf("panic with %q; want %q", text, want)
				}
			}()
			f()
		}()
	}
}
