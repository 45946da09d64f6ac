package usage

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

func TestEnough(t *testing.T) {
	if err := Enough("conns", 1, 2, 3); err != nil {
		t.Error(err)
	}
	if err := Enough("conns", 1<<30, 2, 0); Descriptors() < 1<<30 && (err == nil || !strings.Contains(err.Error(), "ulimit -n 2147483648")) {
		t.Errorf("got %v", err)
	}
}

// TestSwitches sleeps, which takes the thread off its core each time.
func TestSwitches(t *testing.T) {
	const sleeps = 20
	ran, err := During(os.Getpid(), func() error {
		for range sleeps {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no /proc")
	}
	if err != nil || ran.Switches < sleeps || ran.CPU <= 0 {
		t.Errorf("%+v, %v", ran, err)
	}
}
