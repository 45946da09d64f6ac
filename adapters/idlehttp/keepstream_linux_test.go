//go:build proof

package idlehttp

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// vanish has the kernel drop all that arrives on a socket, as if its host were gone.
func vanish(t *testing.T, nc net.Conn) {
	t.Helper()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
	})
	if err != nil {
		t.Skip("the system has no socket filters: ", err)
	}
}

// TestKeepStreamFindsVanished checks that a client that acknowledges nothing is ended by
// WriteTimeout, or by WriteRate if that is sooner.
func TestKeepStreamFindsVanished(t *testing.T) {
	off := idle.Rate{BytesPerSecond: Off}
	for _, test := range []struct {
		limits Timeouts
		reason idle.Reason
	}{
		{Timeouts{WriteTimeout: 300 * ms, WriteRate: off}, idle.ReasonWrite},
		{Timeouts{WriteTimeout: Off, WriteRate: idle.Rate{BytesPerSecond: 1000, Grace: 300 * ms}}, idle.ReasonMinWriteRate},
	} {
		t.Run(test.reason.String(), func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, http2, secure bool) {
				s, response, nc, ended := subscribe(t, secure, http2, test.limits, 200*ms)
				if _, err := response.Body.Read(make([]byte, 4)); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				vanish(t, nc)
				if err := httpsuite.Receive(t, ended); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				httpsuite.NotBefore(t, time.Now(), begun, 300*ms)
				s.WantOnly(1, map[bool]string{false: "request", true: "streams"}[http2], test.reason)
				nc.Close()
			})
		})
	}
}
