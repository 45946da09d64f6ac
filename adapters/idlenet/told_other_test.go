//go:build !linux || idleother

package idlenet

import (
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// whyUntold returns why the kernel does not tell what becomes of a connection's bytes, or
// "" if it does.
func whyUntold(testing.TB) string {
	if kernel.SeesOutput {
		return ""
	}
	return "the kernel is not asked for progress on this system"
}
