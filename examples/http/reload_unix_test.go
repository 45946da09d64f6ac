//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestReloadInADrain sends SIGHUP when the server has begun to drain. By default the signal ends a process.
func TestReloadInADrain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reload(ctx, "none.json")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // for the signal to arrive, if it ends the process
}
