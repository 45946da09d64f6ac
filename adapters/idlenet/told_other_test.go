//go:build !linux

package idlenet

import "testing"

// whyUntold returns why the kernel does not tell what becomes of a connection's bytes.
func whyUntold(testing.TB) string { return "the kernel is asked for progress on Linux only" }
