//go:build proof

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var out bytes.Buffer
	(&report{Rows: rows(append(testContests(), contestOf("late"))), Interrupted: true}).Table(&out)
	for _, want := range []string{"reset-hot: ", "skipped: cannot", "skipped: failed: still running", "broke its word", "1.80×", "p=0.002", "INTERRUPTED", "skipped: the run ended before its turn"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}
