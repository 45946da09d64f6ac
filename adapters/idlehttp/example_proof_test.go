//go:build proof && linux && !386 && !s390x

package idlehttp_test

import (
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
)

func TestExamples(t *testing.T) {
	for _, example := range []func(){
		ExampleWatch_farewell,
		ExampleSetLimits,
		ExampleWrap_shutdown,
		Example_mostUnsent,
	} {
		intime.Prints(t, example)
	}
}
