package idle

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusedPressureChangesNothing(t *testing.T) {
	onDriver(t, slow, &Options{Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
		foreign, err := New(slow, nil)
		if err != nil {
			r.Fatal(err)
		}
		defer foreign.Close()
		theirs, err := foreign.Phase(Policy{Name: "theirs"})
		if err != nil {
			r.Fatal(err)
		}
		mine, unnamed := r.phaseOf(Policy{Name: "mine", IdleTimeout: time.Second}), r.phaseOf(Policy{})
		read := readingOf(0.5).read
		r.setPressure(Pressure{Read: read, Policy: fast})
		for want, p := range map[string]Pressure{
			"Pressure.Read is nil":              {Policy: fast},
			"From is -0.1 and Upto is 0.5":      {Read: read, Policy: fast, From: -0.1, Upto: 0.5},
			"From is 1 and Upto is 1":           {Read: read, Policy: fast, From: 1},
			"From is 0.5 and Upto is 0.5":       {Read: read, Policy: fast, From: 0.5, Upto: 0.5},
			"Upto is 1.1":                       {Read: read, Policy: fast, Upto: 1.1},
			"Upto is NaN":                       {Read: read, Policy: fast, Upto: math.NaN()},
			"From is NaN":                       {Read: read, Policy: fast, From: math.NaN(), Upto: 1},
			"Every is -1s":                      {Read: read, Policy: fast, Every: -time.Second},
			"Every is 1ms; it must be at least": {Read: read, Policy: fast, Every: time.Millisecond},
			"set no limit":                      {Read: read, Policy: Policy{Name: "none"}},
			"has a nil phase":                   {Read: read, Phases: map[*Phase]Policy{nil: fast}},
			`phase "theirs" of another`:         {Read: read, Phases: map[*Phase]Policy{theirs: fast}},
			`phase "slow": IdleTimeout is 1h0m0s at full pressure, longer than the 10m0s at rest`: {Read: read, Policy: Policy{IdleTimeout: time.Hour}},
			`phase "mine": IdleTimeout is 2s at full pressure, longer than the 1s at rest`:        {Read: read, Policy: fast, Phases: map[*Phase]Policy{mine: fast}},
			`phase "mine": under full pressure, IdleTimeout is -1s`:                               {Read: read, Phases: map[*Phase]Policy{mine: {IdleTimeout: -time.Second}}},
			"idle: under full pressure, WriteTimeout is 1ns, shorter than the tick":               {Read: read, Phases: map[*Phase]Policy{unnamed: {WriteTimeout: 1}}},
			"has returned NaN":                  {Policy: fast, Read: readingOf(math.NaN()).read},
			"has returned 1.01":                 {Policy: fast, Read: readingOf(1.01).read},
			"has returned -0.01":                {Policy: fast, Read: readingOf(-0.01).read},
			"has failed: unsupported operation": {Policy: fast, Read: func() (float64, error) { return 0, errors.ErrUnsupported }},
			"has panicked":                      {Policy: fast, Read: func() (float64, error) { panic("in Read") }},
		} {
			err := r.SetPressure(p)
			if err == nil || !strings.HasPrefix(err.Error(), "idle: ") || !strings.Contains(err.Error(), want) {
				r.Errorf("got %v, want %s", err, want)
			}
			if want == "has failed: unsupported operation" && !errors.Is(err, errors.ErrUnsupported) {
				r.Errorf("%v does not match", err)
			}
		}
		r.isAt(0.5)
		r.idles(r.phase, 301*time.Second)
		r.idles(mine, time.Second)
		r.Tracker.Close()
		for _, p := range []Pressure{{}, {Read: read, Policy: fast}} {
			if err := r.SetPressure(p); err != ErrClosed {
				r.Errorf("after Close: %v", err)
			}
		}
		panics(r.T, "zero Tracker", func() { new(Tracker).SetPressure(Pressure{}) })
		panics(r.T, "zero Tracker", func() { new(Tracker).Pressure() })
	})
}

// TestMisreadPressure has a Read that goes wrong in all ways, twice each.
func TestMisreadPressure(t *testing.T) {
	log := &capture{}
	onDriver(t, slow, &Options{Logger: slog.New(log)}, func(r *rig) {
		var ways atomic.Int32
		r.setPressure(Pressure{Policy: fast, Read: func() (float64, error) {
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
		r.wait(500 * time.Millisecond)
		for way := range int32(4) {
			ways.Store(way + 1)
			r.wait(2 * time.Second)
			r.isAt(0.5)
			ways.Store(0)
			r.wait(10 * time.Second)
		}
		if st := r.Stats(); st.Misread != 6 || st.Panics != 2 {
			r.Errorf("%d readings and %d panics were counted, want 6 and 2", st.Misread, st.Panics)
		}
		var got []string
		for _, rec := range log.records {
			got = append(got, rec["level"]+": "+rec["error"]+rec["panic"]+" "+rec["pressure"])
		}
		want := []string{
			"ERROR: idle: Pressure.Read has failed: no descriptors left to look 0.5",
			"ERROR: idle: Pressure.Read has returned NaN; it must return a number from 0 to 1 0.5",
			"ERROR: idle: Pressure.Read has returned 1.5; it must return a number from 0 to 1 0.5",
			"ERROR: in Read ", "ERROR: in Read ",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			r.Errorf("logged\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestPressureEndsWithItsTracker closes trackers in all ways. That the bubble ends shows
// that no goroutine is left.
func TestPressureEndsWithItsTracker(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"closed":  func(r *rig) { r.Tracker.Close() },
		"retired": func(r *rig) { r.Retire() },
		"retired, then timed out": func(r *rig) {
			p, since := r.peer(), time.Now()
			r.Retire()
			r.dies(p, since, 2*time.Second, ReasonIdle)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onDriver(t, slow, nil, func(r *rig) {
				r.setPressure(Pressure{Read: readingOf(1).read, Policy: fast})
				r.wait(time.Second)
				end(r)
				synctest.Wait()
				if n := r.calls.running.count(); n != 0 || !r.hasEnded() {
					r.Errorf("%d goroutines are left", n)
				}
			})
		})
	}
}

// TestCloseDuringRead closes a tracker while Read does not return.
func TestCloseDuringRead(t *testing.T) {
	onDriver(t, slow, nil, func(r *rig) {
		reads, returns := atomic.Int32{}, make(chan struct{})
		r.setPressure(Pressure{Policy: fast, Read: func() (float64, error) {
			if reads.Add(1) > 1 {
				<-returns
			}
			return 1, nil
		}})
		r.wait(2 * time.Second)
		if _, err := r.Tracker.Close(); err == nil || !strings.Contains(err.Error(), "callbacks still running after 1s: 1") {
			r.Errorf("got %v", err)
		}
		close(returns)
	})
}

// TestReplacedDuringRead has a Read return when its Pressure is not in use any more.
func TestReplacedDuringRead(t *testing.T) {
	onDriver(t, slow, nil, func(r *rig) {
		reads, returns := atomic.Int32{}, make(chan struct{})
		r.setPressure(Pressure{Policy: fast, Read: func() (float64, error) {
			if reads.Add(1) > 1 {
				<-returns
			}
			return float64(reads.Load() - 1), nil
		}})
		r.wait(2 * time.Second)
		r.setPressure(Pressure{})
		close(returns)
		r.wait(10 * time.Second)
		r.isAt(0)
		r.idles(r.phase, slow.IdleTimeout)
		if reads.Load() != 2 || r.calls.running.count() != 0 {
			r.Errorf("read %d times, %d goroutines left", reads.Load(), r.calls.running.count())
		}
	})
}
