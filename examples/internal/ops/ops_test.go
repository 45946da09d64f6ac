package ops

import (
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestServe: an example goes on without its page if something else has the port. The metrics include
// those of the Go runtime and of the process.
func TestServe(t *testing.T) {
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	trackers := map[string]*idle.Tracker{"http": tracker}
	if err := Serve(ln.Addr().String(), trackers); err != nil {
		t.Error(err)
	}
	handler, err := Handler(trackers)
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"idlewheel_connections{tracker=\"http\"} 0\n", "\ngo_gc_duration_seconds_count ", "\nprocess_open_fds "} {
		if !strings.Contains(page.Body.String(), want) && (runtime.GOOS == "linux" || want != "\nprocess_open_fds ") {
			t.Errorf("status %d, and no %q in %s", page.Code, want, page.Body)
		}
	}
}
