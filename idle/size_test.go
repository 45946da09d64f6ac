package idle

import (
	"testing"
	"time"
	"unsafe"
)

// TestSizeOfConn pins the memory that a connection costs.
func TestSizeOfConn(t *testing.T) {
	most := uintptr(120)
	if unsafe.Sizeof(uintptr(0)) == 4 {
		most = 104
	}
	if size := unsafe.Sizeof(Conn{}); size > most {
		t.Errorf("a Conn has %d bytes, at most %d are allowed", size, most)
	}
}

// TestNoAllocations covers all that happens per activity and per connection.
func TestNoAllocations(t *testing.T) {
	policy := Policy{
		IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxAge: time.Hour,
		Heartbeat:   Heartbeat{Interval: time.Minute, Passive: true},
		MinReadRate: Rate{100, time.Minute}, MinWriteRate: Rate{100, time.Minute},
	}
	tr, err := New(policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	short, err := tr.Phase(Policy{IdleTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p, other := &peer{}, &peer{}
	hooks := hooksOf(other)
	if err := tr.Track(&p.Conn, p, hooksOf(p)); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(){
		"Touch":                      p.Touch,
		"Received":                   func() { p.Received(10) },
		"Sent":                       func() { p.Sent(10) },
		"Beat":                       p.Beat,
		"reads":                      func() { p.PauseRead(); p.AwaitRead() },
		"writes":                     func() { p.AwaitWrite(); p.PauseWrite() },
		"Enter":                      func() { p.Enter(short); p.Enter(tr.phase) },
		"after a sleep of the clock": func() { tr.clock.Sleep(); p.Touch() },
		"Track and Close": func() {
			other.Conn = Conn{}
			if err := tr.Track(&other.Conn, other, hooks); err != nil {
				t.Error(err)
			}
			other.Stop()
		},
	} {
		if n := testing.AllocsPerRun(1000, do); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
