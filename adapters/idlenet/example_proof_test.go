//go:build proof

package idlenet_test

import (
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
)

func TestExamples(t *testing.T) {
	for _, example := range []func(){
		Example_clientPool,
		Example_reload,
		Example_drain,
		Example_capacity,
		Example_evictionBesidePings,
		Example_explicitUse,
		Example_lineServer,
	} {
		intime.Prints(t, example)
	}
}
