//go:build proof

package idlefasthttp_test

import (
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
)

func TestExamples(t *testing.T) {
	for _, example := range []func(){
		ExampleSetLimits,
		ExampleWrap_shutdown,
	} {
		intime.Prints(t, example)
	}
}
