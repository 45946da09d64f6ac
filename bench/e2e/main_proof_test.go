//go:build proof

package main

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
)

func TestServers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	cfg := config{conns: 4, rounds: 2, duration: 20 * time.Millisecond, size: 64, stream: true}
	core, err := child.Allot()
	if err != nil {
		t.Fatal(err)
	}
	silent := progress.New(io.Discard, "")
	for _, kind := range server.Kinds() {
		r, err := compare(t.Context(), kind, core, cfg, silent)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		var names []string
		for _, v := range r.Variants {
			names = append(names, v.Name)
			if v.OpsPerS.Min <= 0 || v.CPUPerOp.Min <= 0 || *v.RatioToBare <= 0 || *v.CPURatioToBare <= 0 {
				t.Errorf("%s: %+v", kind, v)
			}
		}
		want := "bare own ours no-stream"
		if kind == server.Gnet {
			want = "bare ours"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: variants %s, want %s", kind, got, want)
		}
	}
}

// TestWaiting measures connections that wait, of servers that aren't crowded.
func TestWaiting(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	core, err := child.Allot()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{server.HTTP2, server.GRPC, server.WebSocket} {
		for _, variant := range server.Variants(kind) {
			m := &member{name: variant}
			if err := m.weigh(kind, core, config{size: 64}, 50); err != nil || m.bytes[0] <= 0 {
				t.Errorf("%s/%s: %v bytes, %v", kind, variant, m.bytes, err)
			}
		}
	}
}

// TestCrowd gathers small crowds. Nobody may be closed early, and each must be closed.
func TestCrowd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	core, err := child.Allot()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{server.Net, server.Gnet, server.HTTP, server.Fasthttp} {
		m := &member{name: server.Ours, active: spread.New()}
		if err := m.weigh(kind, core, config{size: 64}, 50); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if err := m.silence(kind, core, config{size: 64}, 50, crowdLimit(50)); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		// The CPU time may come out as less than none, because what the active ones cost is subtracted.
		if m.early > 0 || m.notClosed > 0 || len(m.lateMS) != 1 || m.lateMS[0] < 0 || m.allMS[0] < 0 || len(m.cpu) != 1 || m.bytes[0] <= 0 {
			t.Errorf("%s: %+v", kind, m)
		}
	}
}
