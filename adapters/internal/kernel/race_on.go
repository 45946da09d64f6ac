//go:build race && linux && !386 && !s390x && !msan && !asan

package kernel

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Package syscall tells the race detector two things of its Read and Write: which
// memory they access, and that what one goroutine did before a Write happened before
// what another does after a Read, by a variable that all descriptors share. The
// functions below tell the same of recv and send. They reach that variable by way of
// a Read and a Write that transfer nothing, so that a stream is ordered with a
// connection of package net at the other end as well.

// raceReceived tells that b was filled from fd. If b is empty, fd is at its end.
func raceReceived(fd uintptr, b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(&b[0]), len(b))
	}
	syscall.Read(int(fd), nil) // has to succeed; of a socket it returns 0 before it looks at anything
}

// raceSending tells that something is about to be sent.
func raceSending() {
	syscall.Write(-1, nil) // may fail, as the order is noted first; an empty Write to fd could raise SIGPIPE
}

// raceSent tells that the first n bytes of b were sent.
func raceSent(b []byte, n uintptr) {
	if n > 0 {
		runtime.RaceReadRange(unsafe.Pointer(&b[0]), int(n))
	}
}
