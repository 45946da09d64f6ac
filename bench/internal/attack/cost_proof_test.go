//go:build proof

package attack

import (
	"os"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := usage.CPU(os.Getpid()); err != nil {
		t.Skipf("CPU times are not known here: %v", err)
	}
	r, err := measureAll(t.Context(), 1, 20, os.Stderr, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 11 {
		t.Errorf("%d rows, want 11", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Ratio <= 0 || row.Bare <= 0 {
			t.Errorf("%+v", row)
		}
	}
}
