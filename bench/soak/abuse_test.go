package main

import (
	"os"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/cpu"
)

func TestAbuse(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := cpu.Time(os.Getpid()); err != nil {
		t.Skipf("CPU times are not known here: %v", err)
	}
	whole := amounts
	defer func() { amounts = whole }()
	amounts.flood, amounts.drip, amounts.churn = 1<<20, 500, 50
	status, stdout, stderr := invoke("-abuse", "-rounds", "1", "-json")
	if status != statusPass || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	r := object(t, stdout)
	rows := r["abuses"].([]any)
	if len(rows) != 11 {
		t.Errorf("%d rows, want 11", len(rows))
	}
	for _, row := range rows {
		if row := row.(map[string]any); row["ratio"].(float64) <= 0 || row["bare_cpu_ns"].(float64) <= 0 {
			t.Errorf("%v", row)
		}
	}
}

func TestAbuseRow(t *testing.T) {
	row := newAbuseRow(&abuse{name: "knocks", unit: "knock"}, "door", []float64{10, 20, 10}, []float64{11, 20, 30})
	if row.Bare != 10 || row.Ours != 20 || row.Ratio != 1.1 || row.Least != 1 || row.Most != 3 {
		t.Errorf("%+v", row)
	}
	r := newAbuseReport(config{rounds: 3})
	r.Rows = append(r.Rows, row)
	var b strings.Builder
	if err := r.table(&b); err != nil || !strings.Contains(b.String(), "20.0 ns a knock") {
		t.Errorf("%v, %s", err, b.String())
	}
}
