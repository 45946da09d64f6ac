//go:build proof

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/idle"
)

// start serves until the end of the test, and returns where, and a function that
// shuts down and returns the counts.
func start(t *testing.T, timeouts idlefasthttp.Timeouts) (address string, stop func() idlefasthttp.Stats) {
	t.Helper()
	log.SetOutput(t.Output())
	t.Cleanup(func() { log.SetOutput(io.Discard) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var stats idlefasthttp.Stats
	done := make(chan error, 1)
	go func() {
		var err error
		stats, err = serve(ctx, ln, "", timeouts)
		done <- err
	}()
	return ln.Addr().String(), func() idlefasthttp.Stats {
		cancel()
		if err := <-done; err != nil {
			t.Error("serve:", err)
		}
		return stats
	}
}

func TestHonest(t *testing.T) {
	address, stop := start(t, idlefasthttp.Timeouts{})
	defer http.DefaultClient.CloseIdleConnections()
	for path, want := range map[string]string{"/": "hello,", "/slow?for=10ms": "at last", "/download?bytes=100000": strings.Repeat("\x00", 100000)} {
		res, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: %s, %d bytes, error %v", path, res.Status, len(body), err)
		}
	}
	res, err := http.Post("http://"+address+"/upload", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(body) != "got 1048576 bytes\n" {
		t.Errorf("upload: %s, %q", res.Status, body)
	}
	http.DefaultClient.CloseIdleConnections()
	if stats := stop(); len(stats.TimedOut) != 0 {
		t.Errorf("timed out: %v", stats.TimedOut)
	}
}

// longestStall returns a function that ends the measuring of how long, at most,
// the process has been kept from running.
func longestStall() func() time.Duration {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			begun := time.Now()
			select {
			case <-stop:
				longest <- most
				return
			case <-time.After(10 * time.Millisecond):
				most = max(most, time.Since(begun))
			}
		}
	}()
	return func() time.Duration { close(stop); return <-longest }
}

func TestAttacks(t *testing.T) {
	limit := 1500 * time.Millisecond
	rate := idle.Rate{BytesPerSecond: 1000, Grace: limit}
	address, stop := start(t, idlefasthttp.Timeouts{
		HandshakeTimeout: limit, HeaderTimeout: limit, BodyTimeout: limit, BodyRate: rate,
		HandlerTimeout: 2 * limit, WriteTimeout: limit, WriteRate: rate, KeepAliveTimeout: limit,
	})
	want := map[string]string{ // the answer that comes before the end
		"connects, and says nothing":          "",
		"sends a header, a byte at a time":    "408 Request Timeout",
		"sends half a body, and stops":        "408 Request Timeout",
		"sends a body, a byte at a time":      "408 Request Timeout",
		"asks for what takes too long":        "503 Service Unavailable",
		"asks once, and keeps the connection": "200 OK",
		"asks for much, and does not read it": "",
	}
	var wrong []string // which is inconclusive if the machine did not let the clients attack in time
	stall := longestStall()
	quit, honest := make(chan struct{}), make(chan error)
	go func() {
		n, _, err := visit(address, quit)
		if n == 0 {
			t.Error("no honest request was answered")
		}
		honest <- err
	}()
	results := attackAll(address)
	for range attacks {
		r := <-results
		t.Logf("%s: %s, after %v", r.what, r.end, r.after)
		answer, _, answered := strings.Cut(r.end, " after ")
		if !answered {
			answer = ""
		}
		if first, known := want[r.what]; !known || answer != first || !strings.HasSuffix(r.end, "closed") || strings.Count(r.end, " after ") > 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %s, want it closed, and before that %q", r.what, r.end, first))
		}
		if r.after < limit {
			t.Errorf("%s: closed after %v, before its limit", r.what, r.after)
		}
	}
	close(quit)
	if err := <-honest; err != nil {
		wrong = append(wrong, fmt.Sprint("an honest client: ", err))
	}
	stats := stop()
	n := stats.Limits
	for what, counts := range map[string][2]uint64{
		"a first byte, or a header": {n["HandshakeTimeout"] + n["HeaderTimeout"], 2},
		"a body":                    {n["BodyTimeout"] + n["BodyRate"], 2},
		"a reader":                  {n["WriteTimeout"] + n["WriteRate"], 1},
		"a handler":                 {n["HandlerTimeout"], 1},
	} {
		if counts[0] != counts[1] {
			wrong = append(wrong, fmt.Sprintf("%d timed out for %s, want %d", counts[0], what, counts[1]))
		}
	}
	t.Log(n, stats.Phases)
	longest := stall()
	switch text := strings.Join(wrong, "\n"); {
	case text == "":
	case longest > limit/4:
		t.Skipf("inconclusive: the machine was stalled for %v\n%s", longest, text)
	default:
		t.Error(text)
	}
}
