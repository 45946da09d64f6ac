package attack

import (
	"os"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{Role: Serve})
	os.Exit(m.Run())
}

func TestCostRow(t *testing.T) {
	row := newCostRow(&abuse{name: "knocks", unit: "knock"}, "door", []float64{10, 20, 10}, []float64{11, 20, 30})
	if row.Bare != 10 || row.Ours != 20 || row.Ratio != 1.1 || row.Least != 1 || row.Most != 3 {
		t.Errorf("%+v", row)
	}
}
