//go:build proof

package slow_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/idlewheel/idlewheel/bench/internal/field"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// TestCases tries each case on a server that ends slow clients and on one that doesn't. A case
// that both ended would be no case. Both have to serve the controls.
func TestCases(t *testing.T) {
	guarded, err := field.Guarded(2 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer guarded.Stop()
	open, err := field.Guarded(0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	deaf := serve(t, func(c net.Conn) { answerOnce(c); io.Copy(io.Discard, c); <-t.Context().Done() })
	brief := serve(t, func(c net.Conn) { answerOnce(c); time.Sleep(8 * time.Second) })

	// net/http ends some by itself, h2-no-preface after 10 s and h2-preface-stops after 2 s, and
	// there's no limit for those that are harmless.
	byItself := func(c slow.Case) bool { return c.Soon || c.Name == "h2-no-preface" || c.Name == "h2-preface-stops" }
	tries := []struct {
		on      string
		cases   []slow.Case
		slow    string // what a slow client must be
		targets []slow.Target
	}{
		{"a server with limits", only(func(c slow.Case) bool { return !c.Harmless }), slow.Ended, guarded.Targets},
		{"a server that closes after 8 s", only(func(c slow.Case) bool { return c.Harmless }), slow.Ended, []slow.Target{brief}},
		{"a server without limits", only(func(c slow.Case) bool { return !byItself(c) }), slow.Held, open.Targets},
		{"a deaf server", only(byItself), slow.Held, []slow.Target{deaf}},
	}
	var running sync.WaitGroup
	for _, try := range tries {
		running.Go(func() {
			left := try.cases
			for round := range 3 {
				var wrong []slow.Case
				results := run(t, left, try.targets...)
				for _, c := range left {
					want := try.slow
					if c.Control() {
						want = slow.Passed
					}
					r := results[c.Name]
					if r.Outcome == want {
						continue
					}
					// A busy machine may hold up an honest client for 2 s, but not always.
					if wrong = append(wrong, c); round == 2 {
						t.Errorf("%s: on %s it is %q by %q after %.1f s: %s", c.Name, try.on, r.Outcome, r.By, r.After, r.Why)
					}
				}
				if left = wrong; len(left) == 0 {
					return
				}
			}
		})
	}
	running.Wait()
}

// run tries each case on the first target that has what it needs.
func run(t *testing.T, cases []slow.Case, targets ...slow.Target) map[string]slow.Result {
	results := make([][]slow.Result, len(targets))
	var running sync.WaitGroup
	for i, target := range targets {
		running.Go(func() { results[i] = slow.Run(t.Context(), target, slow.Options{GiveUp: giveUp}, cases) })
	}
	running.Wait()
	all := map[string]slow.Result{}
	for _, r := range slices.Concat(results...) {
		if _, tried := all[r.Name]; !tried && r.Outcome != slow.Skipped {
			all[r.Name] = r
		}
	}
	return all
}

// serve has f serve connections over TLS until the test is over, and returns the target.
func serve(t *testing.T, f func(net.Conn)) slow.Target {
	ln, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return slow.Target{Scheme: "https", Address: ln.Addr().String(), Host: "localhost", Get: "/"}
}

// answerOnce shakes hands if the client does, and answers an HTTP/1 request. It takes no notice
// of anything else, such as the end of the input.
func answerOnce(c net.Conn) {
	certificate, err := server.Certificate()
	if err != nil {
		return
	}
	secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}})
	if secure.Handshake() != nil || secure.ConnectionState().NegotiatedProtocol == "h2" {
		return
	}
	if _, err := http.ReadRequest(bufio.NewReader(secure)); err == nil {
		io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

// TestOptions: the cases take turns if there are fewer places than cases.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o     slow.Options
		cases int
		want  time.Duration
	}{
		{slow.Options{GiveUp: 90 * time.Second}, 70, 102 * time.Second},
		{slow.Options{GiveUp: 90 * time.Second, AtOnce: 1}, 10, 1020 * time.Second},
		{slow.Options{GiveUp: 90 * time.Second, AtOnce: 4, Ramp: time.Second}, 10, 307 * time.Second},
	} {
		if got := c.o.Longest(c.cases); got != c.want {
			t.Errorf("%+v: at most %v, want %v", c.o, got, c.want)
		}
	}
	var now atomic.Int64
	target := serve(t, func(c net.Conn) {
		if n := now.Add(1); n > 2 {
			t.Errorf("%d connections at a time", n)
		}
		defer now.Add(-1) // before the connection is closed
		io.Copy(io.Discard, c)
	})
	target.Scheme = "http"
	cases := only(func(c slow.Case) bool { return c.Name == "tcp-half-close" })
	for _, r := range slow.Run(t.Context(), target, slow.Options{GiveUp: time.Minute, AtOnce: 2}, slices.Repeat(cases, 20)) {
		if r.Outcome != slow.Ended {
			t.Errorf("%+v", r)
		}
	}
}

// TestPrefaceFirst: the SETTINGS of a server that come first are not acknowledged before the client
// has sent its preface, and never by a client that sends no SETTINGS of its own. net/http closes a
// connection that does not begin with the preface.
func TestPrefaceFirst(t *testing.T) {
	for name, want := range map[string]string{"h2-no-preface": "", "h2-preface-stops": http2.ClientPreface} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan string, 1)
			target := serve(t, func(c net.Conn) {
				http2.NewFramer(c, nil).WriteSettings()
				all, _ := io.ReadAll(c)
				sent <- string(all)
			})
			target.Scheme, target.Protocols = "http", []string{"h2"}
			cases := only(func(c slow.Case) bool { return c.Name == name })
			slow.Run(t.Context(), target, slow.Options{GiveUp: 5 * time.Second}, cases)
			if got := <-sent; got != want {
				t.Errorf("it sends %q; want %q", got, want)
			}
		})
	}
}
