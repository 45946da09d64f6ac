//go:build proof

package slow_test

import (
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/field"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// giveUp is longer than the limits of the servers in these tests, and much shorter than those
// that a server has by default.
const giveUp = 12 * time.Second

// only returns some cases.
func only(these func(slow.Case) bool) []slow.Case {
	return slices.DeleteFunc(slow.Cases(), func(c slow.Case) bool { return !these(c) })
}

// TestField: each server of the field starts and serves, or says why not.
func TestField(t *testing.T) {
	cases := only(func(c slow.Case) bool {
		return slices.Contains([]string{"h1-slow-header", "h2-slow-header", "grpc-subscribes", "mqtt-slow-connect"}, c.Name)
	})
	for _, s := range field.Servers() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			target, stop, err := s.Start()
			if err != nil {
				t.Skip(err)
			}
			defer stop()
			for _, r := range slow.Run(t.Context(), target, slow.Options{GiveUp: giveUp}, cases) {
				if r.Outcome != slow.Passed && r.Outcome != slow.Skipped {
					t.Errorf("it does not serve: %+v", r)
				}
			}
		})
	}
}
