package ops

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestTakenPort: an example goes on without its page if something else has the port.
func TestTakenPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	if err := Serve(ln.Addr().String(), map[string]*idle.Tracker{"test": tracker}); err != nil {
		t.Error(err)
	}
}

// TestPorts: each example has a port of its own, which Prometheus scrapes.
func TestPorts(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	scraped := read("observability/prometheus.yaml")
	fleet := read("fleet/main.go")
	for text, want := range map[string]string{scraped: `["127.0.0.1:6071", "127.0.0.1:6072", "127.0.0.1:6073"]`, fleet: `"ops", 6071`} {
		if !strings.Contains(text, want) { // each node takes the port after the one before
			t.Errorf("fleet: there is no %s", want)
		}
	}
	for name, address := range map[string]string{"http": "127.0.0.1:6060", "fasthttp": "127.0.0.1:6061"} {
		source := read(name + "/main.go")
		for text, want := range map[string]string{source: `flag.String("ops", "` + address, scraped: `"` + address + `"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: there is no %s", name, want)
			}
		}
		if !strings.Contains(source, "http://"+address) {
			t.Errorf("%s: the comment does not say what is at %s", name, address)
		}
	}
}
