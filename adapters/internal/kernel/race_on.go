//go:build race && linux && !386 && !s390x && !msan && !asan && !idleother

package kernel

import (
	"runtime"
	"syscall"
	"unsafe"
)

// For each Read and Write, package syscall reports two things to the race detector: which memory
// is accessed, and that everything before a Write happens before everything after a Read. For the
// second it uses one variable that all descriptors share. The functions below tell the detector
// the same about recv and send. They reach that variable through a Read and a Write of syscall
// that transfer nothing. So a stream is also ordered with a plain connection of package net at
// the other end.

// raceReceived records that b was filled from fd. An empty b means end of file.
func raceReceived(fd uintptr, b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(&b[0]), len(b))
	}
	syscall.Read(int(fd), nil) // must succeed; on a socket, a Read of nothing returns 0 at once
}

// raceSending records that data is about to be sent.
func raceSending() {
	syscall.Write(-1, nil) // may fail: the order is recorded first; an empty Write to fd could raise SIGPIPE
}

// raceSent records that the first n bytes of b were sent.
func raceSent(b []byte, n uintptr) {
	if n > 0 {
		runtime.RaceReadRange(unsafe.Pointer(&b[0]), int(n))
	}
}
