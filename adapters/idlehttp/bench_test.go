package idlehttp

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// exchanger serves h on a pipe, with timeouts or without, and returns a function that sends
// a request and receives the response.
func exchanger(tb testing.TB, ours bool, h http.HandlerFunc) func() string {
	s := &http.Server{Handler: h}
	pipes := idletest.NewListener()
	var ln net.Listener = pipes
	if ours {
		l, err := Wrap(s, ln, Timeouts{})
		if err != nil {
			tb.Fatal(err)
		}
		ln = l
	}
	go s.Serve(ln)
	tb.Cleanup(func() { s.Close() })
	client, err := pipes.Dial()
	if err != nil {
		tb.Fatal(err)
	}
	request, response := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), make([]byte, 4096)
	return func() string {
		if _, err := client.Write(request); err != nil {
			tb.Fatal(err)
		}
		n, err := client.Read(response)
		if err != nil {
			tb.Fatal(err)
		}
		return string(response[:n])
	}
}

var greeting = []byte("greeting")

func sayHello(w http.ResponseWriter, _ *http.Request) { w.Write(greeting) }

// BenchmarkRequest is a small request over HTTP/1, by net/http with and without the timeouts
// of this package. The connection is a pipe, so most of the time is net/http's.
func BenchmarkRequest(b *testing.B) {
	for _, ours := range []bool{false, true} {
		b.Run(fmt.Sprintf("ours=%v", ours), func(b *testing.B) {
			exchange := exchanger(b, ours, sayHello)
			b.ReportAllocs()
			for b.Loop() {
				exchange()
			}
		})
	}
}

// TestRequestAllocates: a request has no more allocations with timeouts than without. What
// else the process does is counted too, such as pools that a collection empties, or that drop
// some of their content under the race detector. So the least of several averages decides.
func TestRequestAllocates(t *testing.T) {
	allocations := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Mallocs
	}
	count := func(ours bool) float64 {
		exchange := exchanger(t, ours, sayHello)
		least := math.Inf(1)
		for range 10 {
			const n = 200
			before := allocations()
			for range n {
				exchange()
			}
			least = min(least, float64(allocations()-before)/n)
		}
		return least
	}
	if bare, ours := count(false), count(true); ours > bare+0.5 {
		t.Errorf("a request has %.2f allocations, and without timeouts %.2f", ours, bare)
	}
}
