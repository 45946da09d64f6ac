//go:build proof

package server

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// TestServers exchanges something with every variant, and waits to be cut off for silence.
// A bare server must not do that.
func TestServers(t *testing.T) {
	for _, kind := range Kinds() {
		for _, variant := range Variants(kind) {
			t.Run(kind+"/"+variant, func(t *testing.T) {
				t.Parallel()
				const limit = time.Second
				s, err := Start(Config{
					Kind: kind, Variant: variant, Own: limit,
					Policy: idle.Policy{IdleTimeout: limit}, Timeouts: httplimits.Timeouts{KeepAliveTimeout: limit},
				})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				c, err := Dial(kind, s.Address)
				if err == nil {
					defer c.Close()
					err = c.Exchange()
				}
				if took := time.Since(begun); err != nil && variant != Bare && took > limit/2 {
					t.Skipf("inconclusive: the machine needed %v for a request: %v", took, err)
				}
				if err != nil {
					t.Fatal(err)
				}
				patience := 30 * time.Second
				if variant == Bare {
					patience = limit + limit/2
				}
				if open := c.IsOpen(time.Now().Add(patience)); open != (variant == Bare) {
					t.Errorf("after up to %v, it's %v that a silent connection is open", patience, open)
				}
				if (s.Stats != nil) != (variant == Ours) || s.Stats != nil && s.Stats().Tracked == 0 {
					t.Error("the statistics are wrong")
				}
				if err := s.Stop(); err != nil {
					t.Errorf("stopping: %v", err)
				}
			})
		}
	}
}
