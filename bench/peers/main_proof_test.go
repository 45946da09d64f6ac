//go:build proof

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// invoke runs the program with args.
func invoke(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram(&config{}).Invoke(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestQuick(t *testing.T) {
	html, svg := filepath.Join(t.TempDir(), "peers.html"), filepath.Join(t.TempDir(), "cost.svg")
	status, stdout, stderr := invoke("-quick", "-json", "-html", html, "-svg", svg, "-run", "^reset-(hot|random-1k)/(idlewheel|AfterFunc)$")
	if status != program.Pass || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if len(got.Rows) != 4 {
		t.Errorf("%d rows, want 4", len(got.Rows))
	}
	for _, r := range got.Rows {
		if r.Median == nil || *r.Median <= 0 || r.N != quickRounds || r.Early != 0 || r.Unit != "ns" {
			t.Errorf("%+v", r)
		}
	}
	for file, want := range map[string]string{html: "</html>", svg: ">AfterFunc<"} {
		if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s has no %s: %v", file, want, err)
		}
	}
}

// TestChildThatHangs has a turn take longer than it may.
func TestChildThatHangs(t *testing.T) {
	s := smallScale()
	s.Limit, s.Settle = 300*time.Millisecond, time.Hour
	_, err := delegate(context.Background(), order{"silent", us, 1, s})
	if err == nil || err.Error() != "still running after 300ms" {
		t.Errorf("got %v", err)
	}
}

func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	cfg := config{rounds: 1, run: regexp.MustCompile("silent/idlewheel")}
	var errs bytes.Buffer
	if err := hold(ctx, cfg, cfg.contests(), &errs); !errors.Is(err, context.DeadlineExceeded) || errs.Len() > 0 {
		t.Errorf("got %v, %q", err, errs.String())
	}
}
