package main

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

func TestMetrics(t *testing.T) {
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	handler, err := ops.Handler(map[string]*idle.Tracker{"http": tracker})
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	wants := []string{"idlewheel_connections{tracker=\"http\"} 0\n", "\ngo_gc_duration_seconds_count "}
	if runtime.GOOS == "linux" {
		wants = append(wants, "\nprocess_open_fds ", "\nprocess_max_fds ") // for the alert IdlewheelDescriptors
	}
	for _, want := range wants {
		if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), want) {
			t.Errorf("status %d, and no %q in %s", page.Code, want, page.Body)
		}
	}
}

// TestListen: what systemd passes is taken over, and anything else is refused by name.
func TestListen(t *testing.T) {
	for _, address := range []string{"fd:", "fd:2", "fd:x"} {
		if _, err := listen(address); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
