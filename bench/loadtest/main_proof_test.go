//go:build proof

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

var small = []string{"-duration", "2s", "-idle", "600ms", "-heartbeat", "200ms", "-json"}

// wantPass checks the object that a run has written.
func wantPass(t *testing.T, status int, stdout, stderr string) {
	t.Helper()
	if stderr != "" {
		t.Errorf("wrote to stderr: %s", stderr)
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if status != program.Pass {
		t.Errorf("status %d: %s", status, stdout)
	}
	if r["closed"] != r["expected"] || r["closed"] == 0.0 || r["unaccounted"] != 0.0 {
		t.Errorf("closed %v of %v, unaccounted %v", r["closed"], r["expected"], r["unaccounted"])
	}
}

func TestMock(t *testing.T) {
	status, stdout, stderr := invoke(append(small, "-conns", "2000")...)
	wantPass(t, status, stdout, stderr)
}

func TestSockets(t *testing.T) {
	status, stdout, stderr := invoke(append(small, "-sockets", "200")...)
	wantPass(t, status, stdout, stderr)
}

func TestTableAndProgress(t *testing.T) {
	status, stdout, stderr := invoke("-conns", "100", "-duration", "3s", "-idle", "500ms", "-heartbeat", "0", "-progress")
	if status != program.Pass || !strings.Contains(stdout, "PASS") || !strings.Contains(stdout, "100 mock connections") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
	if !strings.Contains(stderr, "live") {
		t.Errorf("no progress on stderr: %q", stderr)
	}
}

// TestInterruption interrupts runs in progress, which report what they have seen, and one that is
// still connecting, which reports nothing.
func TestInterruption(t *testing.T) {
	for _, mode := range []string{"-conns", "-sockets"} {
		t.Run(mode, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var out bytes.Buffer
			errs := &watched{text: "touches/s", seen: cancel}
			status := newProgram().Invoke(ctx, []string{mode, "100", "-duration", "1h", "-progress"}, &out, errs)
			if status != program.Interrupted || !strings.Contains(out.String(), "Interrupted") {
				t.Errorf("status %d, %s%s", status, out.String(), errs.String())
			}
		})
	}
	t.Run("set-up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var out, errs bytes.Buffer
		status := newProgram().Invoke(ctx, []string{"-sockets", "100", "-json"}, &out, &errs)
		if status != program.Interrupted || out.Len() > 0 || errs.String() != "loadtest: interrupted\n" {
			t.Errorf("status %d, %s%s", status, out.String(), errs.String())
		}
	})
}

// watched is a buffer that calls seen when text is written to it.
type watched struct {
	mu sync.Mutex
	bytes.Buffer
	text string
	seen func()
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte(w.text)) {
		w.seen()
	}
	return w.Buffer.Write(b)
}

func TestVerdict(t *testing.T) {
	r := newReport(testConfig(), 2000)
	r.judgement = judgement{Expected: 1002, Closed: 1001, Early: 1, Missed: 2}
	r.Deferred = 500
	var out strings.Builder
	r.Table(&out)
	text := strings.Join(strings.Fields(out.String()), " ")
	if r.Status() != program.Fail || !strings.Contains(text, "FAIL: 1,002 had to be closed; 1 closed too early, 2 not closed") || !strings.Contains(text, "That is normal") {
		t.Errorf("status %d: %s", r.Status(), &out)
	}
}

// TestReport writes the page.
func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	status, stdout, stderr := invoke(append([]string{"-conns", "2000", "-report", file}, small...)...)
	wantPass(t, status, stdout, stderr)
	if text, err := os.ReadFile(file); err != nil || bytes.Count(text, []byte("<svg")) != 2 || !bytes.Contains(text, []byte("PASS")) {
		t.Errorf("got %v, %s", err, text)
	}
}
