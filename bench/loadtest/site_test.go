package main

import (
	"strings"
	"testing"
)

// TestSiteSaysWhatItServes: who starts a run is told what others on the machine can do.
func TestSiteSaysWhatItServes(t *testing.T) {
	status, stdout, stderr := invoke(append([]string{"-conns", "100", "-http", ":0"}, small...)...)
	_, page, _ := strings.Cut(stderr, "the page is at ")
	page, _, _ = strings.Cut(page, "\n")
	if !strings.HasPrefix(page, "http://127.0.0.1:") || !strings.Contains(stderr, "metrics are at "+page+"metrics\n") || !strings.Contains(stderr, "can end connections") {
		t.Errorf("stderr is %q", stderr)
	}
	wantPass(t, status, stdout, "")
}
