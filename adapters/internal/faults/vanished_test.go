//go:build proof && linux

package faults

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// Who has vanished without a FIN is closed by whatever limit is on its side: WriteTimeout while it is written to, and a
// heartbeat while it is silent. Its system acknowledges what its buffers take, or it's off the network.
func TestVanished(t *testing.T) {
	long(t)
	t.Parallel()
	active := idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 4, Misses: 2}}
	passive := idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 2, Passive: true}}
	writing := idle.Policy{WriteTimeout: limit}
	overNet := func(p idle.Policy, serve func(*idlenet.Conn) error) func() (*server, error) {
		return func() (*server, error) {
			return newNetServer(listen(), p, &idlenet.Options{Ping: func(c *idlenet.Conn) error { _, err := c.Write([]byte("ping")); return err }}, serve)
		}
	}
	overGnet := func(p idle.Policy, traffic func(gnet.Conn, []byte)) func() (*server, error) {
		return func() (*server, error) {
			return newGnetServer(p, &idlegnet.Options{Ping: func(c gnet.Conn) error { _, err := c.Write([]byte("ping")); return err }}, traffic)
		}
	}
	for name, c := range map[string]struct {
		want  idle.Reason
		start func() (*server, error)
	}{
		"idlenet write":             {idle.ReasonWrite, overNet(writing, fill)},
		"idlenet heartbeat":         {idle.ReasonHeartbeat, overNet(active, echo)},
		"idlenet passive heartbeat": {idle.ReasonHeartbeat, overNet(passive, echo)},
		"idlegnet write":            {idle.ReasonWrite, overGnet(writing, func(c gnet.Conn, _ []byte) { c.Write(make([]byte, 16<<20)) })},
		"idlegnet heartbeat":        {idle.ReasonHeartbeat, overGnet(active, gnetEcho)},
	} {
		for how, vanish := range map[string]func(*testing.T, net.Conn){"acknowledges": func(*testing.T, net.Conn) {}, "off the network": deafen} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				s, err := c.start()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.stop)
				begun := time.Now()
				peer := dial(t, s.address)
				io.WriteString(peer, "s")
				peer.SetReadDeadline(time.Now().Add(patience))
				_, err = io.ReadFull(peer, make([]byte, 1))
				inTime(t, begun)
				if err != nil {
					t.Fatal(err)
				}
				vanish(t, peer)
				var timeout *idle.TimeoutError
				if errors.As(soon(t, s.ended, "timeout"), &timeout); timeout.Reason != c.want {
					t.Errorf("closed for %v", timeout)
				}
			})
		}
	}
}

// deafen has the kernel drop all packets for nc, unread and unacknowledged.
func deafen(t *testing.T, nc net.Conn) {
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		if err := unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop}); err != nil {
			t.Skip("packets cannot be dropped: ", err)
		}
	})
}
