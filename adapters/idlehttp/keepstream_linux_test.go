//go:build proof

package idlehttp

import (
	"context"
	"net"
	"net/http"
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
			byProtocol(t, func(t *testing.T, secure, http2 bool) {
				ended := make(chan error, 1)
				s := start2(t, secure, test.limits, KeepStream(events(ended), Comments{Interval: 200 * ms, Text: ": \n\n"}).ServeHTTP)
				tr := s.transport(http2)
				conns := make(chan net.Conn, 1)
				tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, address)
					conns <- nc
					return nc, err
				}
				url := map[bool]string{false: "http", true: "https"}[secure] + "://" + s.Addr().String()
				response, err := (&http.Client{Transport: tr}).Get(url)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				nc := <-conns
				if _, err := response.Body.Read(make([]byte, 4)); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				vanish(t, nc)
				if err := httpsuite.Receive(t, ended); err == nil || err.Error() != "context canceled" {
					t.Error(err)
				}
				httpsuite.NotBefore(t, time.Now(), begun, 300*ms)
				phase := "request"
				if http2 {
					phase = "streams"
				}
				s.WantOnly(1, phase, test.reason)
				nc.Close()
			})
		})
	}
}
