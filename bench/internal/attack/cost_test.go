package attack

import (
	"os"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{Role: Serve})
	os.Exit(m.Run())
}

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

func TestCostRow(t *testing.T) {
	row := newCostRow(&abuse{name: "knocks", unit: "knock"}, "door", []float64{10, 20, 10}, []float64{11, 20, 30})
	if row.Bare != 10 || row.Ours != 20 || row.Ratio != 1.1 || row.Least != 1 || row.Most != 3 {
		t.Errorf("%+v", row)
	}
}
