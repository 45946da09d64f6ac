package usage

import (
	"strings"
	"testing"
)

func TestEnough(t *testing.T) {
	if err := Enough("conns", 1, 2, 3); err != nil {
		t.Error(err)
	}
	if err := Enough("conns", 1<<30, 2, 0); Descriptors() < 1<<30 && (err == nil || !strings.Contains(err.Error(), "ulimit -n 2147483648")) {
		t.Errorf("got %v", err)
	}
}
