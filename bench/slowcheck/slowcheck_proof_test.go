//go:build proof

package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// TestOutcomes tries all cases on a server with short limits, which must end the slow ones and
// serve the honest ones, and on one without limits, which can't end most of the slow ones.
func TestOutcomes(t *testing.T) {
	const limit, giveUp = 2 * time.Second, 24 * time.Second
	guarded := idlehttp.Timeouts{
		HandshakeTimeout: 2 * limit, HeaderTimeout: 2 * limit, BodyTimeout: limit, WriteTimeout: 2 * limit, KeepAliveTimeout: 3 * limit,
		BodyRate: idle.Rate{BytesPerSecond: 240, Grace: limit}, WriteRate: idle.Rate{BytesPerSecond: 24_000, Grace: 2 * limit}, // for 64 kB, which a window has, they pay few seconds
	}
	// net/http ends half-closed input by itself, and what isn't HTTP/2.
	byItself := func(c slowCase) bool { return c.soon || c.Name == "h2-no-preface" || c.Name == "h2-preface-stops" }
	for _, variant := range []string{server.Ours, server.Bare} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			s, err := start(server.Config{Kind: server.HTTP2, Variant: variant, Timeouts: guarded, Web: new(http.Server)}, "")
			if err != nil {
				t.Fatal(err)
			}
			defer s.stop()
			left := cases()
			for round := range 3 {
				var wrong []slowCase
				for _, r := range tryAll(t.Context(), s.target, giveUp, left) {
					want := held
					switch {
					case r.honest:
						want = served
					case variant == server.Ours:
						want = ended
					case byItself(r.slowCase):
						continue
					}
					if r.Outcome == want {
						continue
					}
					// A busy machine may hold up an honest client for 2 s, but not always.
					if wrong = append(wrong, r.slowCase); round == 2 {
						t.Errorf("%s is %q by %q after %.1f s: %s", r.Name, r.Outcome, r.By, r.After, r.Why)
					}
				}
				if left = wrong; len(left) == 0 {
					return
				}
			}
		})
	}
}

// TestContestants: each server starts and serves honest clients, or says why it can't start.
func TestContestants(t *testing.T) {
	for _, name := range contestants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := startContestant(name)
			if err != nil {
				t.Skip(err)
			}
			defer s.stop()
			for _, r := range tryAll(t.Context(), s.target, 12*time.Second, cases()) {
				if r.honest && r.Outcome == refused {
					t.Errorf("it does not serve: %+v", r)
				}
			}
		})
	}
}

// TestLoad holds a server with two hundred slow clients. Its honest clients must be served.
func TestLoad(t *testing.T) {
	limits := idlehttp.Timeouts{HandshakeTimeout: time.Second, HeaderTimeout: time.Second, KeepAliveTimeout: time.Second}
	s, err := start(server.Config{Kind: server.HTTP2, Variant: server.Ours, Timeouts: limits, Web: new(http.Server)}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	c := config{url: "https://" + s.target.address, load: 200, giveUp: 6 * time.Second, target: s.target}
	results, load := c.attack(t.Context())
	if len(results) != 200 || load.Served < 10 || load.Failed > 0 {
		t.Errorf("%+v of %d", load, len(results))
	}
}
