package idle

import (
	"math/rand/v2"
	"strings"
	"time"
)

// drainOnce drains for a while, with a pause. Those that stay are busy.
func (s *stress) drainOnce(rng *rand.Rand) {
	d := Drain{Duration: time.Duration(rng.IntN(5)) * time.Millisecond, CloseDelay: time.Duration(rng.IntN(2)) * time.Millisecond}
	o, err := s.tracker.Drain(d)
	if err != nil {
		if err != ErrClosed && !strings.Contains(err.Error(), "another") {
			s.t.Errorf("Drain: %v", err)
		}
		return
	}
	s.settleOp(rng, o)
}

// shedOnce sheds some that do not stay.
func (s *stress) shedOnce(rng *rand.Rand) {
	shed := Shed{Cause: "shed", CloseDelay: time.Duration(rng.IntN(2)) * time.Millisecond}
	switch rng.IntN(4) {
	case 0:
		shed.Phase, shed.ForceAfter = s.phases[rng.IntN(len(s.phases))], time.Duration(1+rng.IntN(5))*time.Millisecond
	case 1:
		shed.Filter = func(any) bool { return rand.IntN(2) == 0 }
	case 2:
		shed.Max, shed.Rate = 1+rng.IntN(10), 1000
	case 3:
		shed.Idle, shed.Fraction = time.Millisecond, 0.5
	}
	o, err := s.tracker.Shed(shed)
	if err != nil {
		if err != ErrClosed {
			s.t.Errorf("Shed: %v", err)
		}
		return
	}
	s.settleOp(rng, o)
}

// settleOp has o pause, go on and end, and looks at what it says of itself.
func (s *stress) settleOp(rng *rand.Rand, o *Operation) {
	switch rng.IntN(3) {
	case 0:
		o.Pause()
		time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
		o.Resume()
	case 1:
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
	time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	if rng.IntN(2) == 0 { // its walk may have to wait for many others
		for begun := time.Now(); !s.isClosed() && time.Since(begun) < 10*time.Second; time.Sleep(time.Millisecond) {
			if p := o.Progress(); p.Ended > 0 || p.Finished {
				break
			}
		}
	}
	o.Cancel()
	select {
	case <-o.Done():
	case <-time.After(time.Minute):
		s.t.Errorf("seed %d: cancelled, and not done for a minute: %+v", s.seed, o.Progress())
		return
	}
	p := o.Progress()
	if p.Met != p.Ended+p.Gone+p.Left || min(p.Ended, p.Gone, p.Left) < 0 || !p.Finished {
		s.t.Errorf("seed %d: %+v", s.seed, p)
	}
	s.endedByOps.Add(int64(p.Ended))
}

// endOne ends a connection by hand.
func (s *stress) endOne(rng *rand.Rand) {
	k := &s.slots[rng.IntN(len(s.slots))]
	k.using.RLock()
	defer k.using.RUnlock()
	if k.cur.Load() != nil {
		k.conn.End("by hand")
	}
}

// lastUntilDrained tracks a connection that no limit ends.
func (s *stress) lastUntilDrained(rng *rand.Rand) {
	k := &s.slots[busySlots+rng.IntN(len(s.slots)-busySlots)]
	s.begin(rng, &k.slotted, s.tracker.Track)
	k.using.RLock()
	defer k.using.RUnlock()
	if k.conn != nil && k.conn.Live() { // nil if the tracker was closed before
		k.conn.Enter(s.exempt)
	}
}
