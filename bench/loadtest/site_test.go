//go:build proof

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/program"
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

// TestLimitsChangedByHand: the oracle does not know limits that were changed on the page, so
// what comes of them is no fault of the library. A change that is refused is none.
func TestLimitsChangedByHand(t *testing.T) {
	for body, changed := range map[string]bool{
		`{"phase": "open", "limits": {"IdleTimeout": "1h"}}`:  true,
		`{"phase": "open", "limits": {"IdleTimeout": "-1s"}}`: false,
	} {
		errs, w := io.Pipe()
		var out bytes.Buffer
		status := make(chan int, 1)
		go func() {
			args := append(slices.Clone(small), "-conns", "1000", "-duration", "4s", "-http", ":0", "-progress=false")
			status <- newProgram().Invoke(context.Background(), args, &out, w)
			w.Close()
		}()
		page := awaitPage(t, errs)
		resp, err := http.Post(page+"api/limits", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if (resp.StatusCode == http.StatusOK) != changed {
			t.Fatalf("%s: status %d, %s", body, resp.StatusCode, text)
		}
		got := <-status
		var r struct {
			Changed bool `json:"limits_changed"`
		}
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("%v in %q", err, &out)
		}
		want := program.Pass
		if changed {
			want = program.Trouble
		}
		if got != want || r.Changed != changed {
			t.Errorf("%s: status %d, want %d; limits_changed %v", body, got, want, r.Changed)
		}
	}
}

// awaitPage returns where the page of a run is, and has the rest of its messages discarded.
func awaitPage(t *testing.T, errs io.Reader) string {
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "the page is at "); ok {
			go io.Copy(io.Discard, errs)
			return at
		}
	}
	t.Fatal("loadtest has not said where the page is")
	return ""
}

// TestChangedVerdict: neither the first line nor the last one blames the library.
func TestChangedVerdict(t *testing.T) {
	r := newReport(testConfig(), 2000)
	r.judgement = judgement{Expected: 1002, Closed: 1001, Early: 1, Missed: 2}
	r.LimitsChanged = true
	var out strings.Builder
	r.Table(&out)
	text := strings.Join(strings.Fields(out.String()), " ")
	if r.Status() != program.Trouble || strings.Contains(text, "FAIL") || strings.Count(text, "limits were changed by hand, so the oracle cannot judge") != 2 {
		t.Errorf("status %d: %s", r.Status(), &out)
	}
}
