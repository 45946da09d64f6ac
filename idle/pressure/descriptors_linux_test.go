package pressure

import (
	"os"
	"syscall"
	"testing"
)

// TestDescriptors opens a few, which both ways to count them see.
func TestDescriptors(t *testing.T) {
	const more = 3000 // so that the list comes in parts
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < more+100 {
		t.Skipf("only %d descriptors may be open", limit.Cur)
	}
	count := func() (share float64, open, listed uint64) {
		t.Helper()
		share, err := Descriptors()
		if err != nil {
			t.Fatal(err)
		}
		if open, err = openDescriptors(); err != nil {
			t.Fatal(err)
		}
		if listed, err = listDescriptors(); err != nil {
			t.Fatal(err)
		}
		return share, open, listed
	}
	count() // has the runtime open what it needs itself
	share, open, listed := count()
	for range more {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	shareNow, openNow, listedNow := count()
	if openNow-open != more || listedNow-listed != more || open != listed {
		t.Errorf("%d and then %d are open, %d and then %d are listed; want %d more", open, openNow, listed, listedNow, more)
	}
	if want := float64(openNow) / float64(limit.Cur); shareNow != want || shareNow <= share {
		t.Errorf("a share of %v, and then of %v; want %v", share, shareNow, want)
	}
}

// TestNoDescriptorsLeft lists those of a process that may open none.
func TestNoDescriptorsLeft(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	n, err := listDescriptors()
	if err != nil || n < 3 {
		t.Errorf("listed %d, %v", n, err)
	}
	if v, err := Descriptors(); v != 1 || err != nil {
		t.Errorf("Descriptors = %v, %v; want 1", v, err)
	}
}
