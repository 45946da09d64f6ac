package pressure

import (
	"testing"
	"time"
)

func TestShareOfCPU(t *testing.T) {
	begun := time.Now()
	for _, test := range []struct {
		over, used time.Duration
		processors int
		want       float64
	}{
		{time.Second, 500 * time.Millisecond, 1, 0.5},
		{time.Second, 500 * time.Millisecond, 2, 0.25},
		{10 * time.Second, 15 * time.Second, 2, 0.75},
		{time.Second, 4 * time.Second, 2, 1}, // more than there is: the processors were more a moment ago
		{time.Second, 0, 8, 0},
		{time.Second, -time.Second, 8, 0},
		{0, time.Second, 8, 0},
		{365 * 24 * time.Hour, 365 * 24 * time.Hour, 100, 0.01},
	} {
		before := cpuTime{begun, time.Minute}
		now := cpuTime{begun.Add(test.over), time.Minute + test.used}
		if got := now.share(before, test.processors); got != test.want {
			t.Errorf("%v in %v on %d: %v, want %v", test.used, test.over, test.processors, got, test.want)
		}
	}
}

// TestCPU reads while the process is busy.
func TestCPU(t *testing.T) {
	used, err := cpuUsed()
	if err != nil {
		t.Fatal(err)
	}
	read := CPU()
	if n, err := read(); n != 0 || err != nil {
		t.Logf("at once: %v, %v (the machine may be slow)", n, err)
	}
	for now := used; now < used+50*time.Millisecond; {
		if now, err = cpuUsed(); err != nil {
			t.Fatal(err)
		}
	}
	n, err := read()
	if !(n > 0 && n <= 1) || err != nil {
		t.Errorf("after 50 ms of work: %v, %v", n, err)
	}
	if again, err := read(); err != nil || again < 0 || again > 1 {
		t.Errorf("again: %v, %v", again, err)
	}
}
