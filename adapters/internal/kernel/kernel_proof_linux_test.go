//go:build proof && !idleother

package kernel

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/idle"
)

// TestInspect tells TCP sockets from Unix ones by what is known of them, and
// neither from nothing.
func TestInspect(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		server, client := connect(t, network, address)
		tcp := network == "tcp"
		r := inspect(t, server)
		if r.Unread != 0 || !r.QueuedKnown || r.Queued != 0 || r.AckedKnown != tcp || (r.In > 0) != tcp || (r.Out > 0) != tcp {
			t.Errorf("%s, new: %+v", network, r)
		}
		if !r.Evidence().OutEmpty {
			t.Errorf("%s, new: something waits to go out", network)
		}
		before := r.Acked
		client.Write([]byte("hello"))
		eventually(t, "what was sent is unread", func() bool { return inspect(t, server).Unread == 5 })
		r = inspect(t, server)
		if p := r.Evidence(); p.In != r.In || p.Out != r.Out || !p.Unread {
			t.Errorf("%s: %+v becomes %+v", network, r, p)
		}
		if InspectConn(wrapper{Conn: server}) != inspect(t, server) && !tcp { // of TCP, times pass
			t.Errorf("%s: InspectConn does not find the socket", network)
		}
		server.Read(make([]byte, 5))
		if inspect(t, server).Unread != 0 {
			t.Errorf("%s: what was read is unread", network)
		}
		server.Write([]byte("hello"))
		if tcp {
			eventually(t, "what was sent is acknowledged", func() bool {
				r = inspect(t, server)
				return r.Acked == before+5 && r.Queued == 0
			})
		} else if r = inspect(t, server); r.Queued == 0 || r.Evidence().OutEmpty {
			t.Errorf("%s: nothing is queued: %+v", network, r)
		}
	}
	if r := Inspect(^uintptr(0)); r != (Report{}) || r.Evidence() != (idle.SocketState{}) {
		t.Errorf("of no descriptor it knows %+v", r)
	}
}

// A wrapper is found by its NetConn.
type wrapper struct{ net.Conn }

func (w wrapper) NetConn() net.Conn { return w.Conn }

// deafen has the kernel drop all that nc's peer sends, unread and unacknowledged.
func deafen(t *testing.T, nc net.Conn) {
	t.Helper()
	withFd(t, nc, func(fd int) {
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop}); err != nil {
			t.Skip("packets cannot be dropped: ", err)
		}
	})
}

func tcpInfo(t *testing.T, nc net.Conn) (info *unix.TCPInfo) {
	t.Helper()
	withFd(t, nc, func(fd int) {
		var err error
		if info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err != nil {
			t.Fatal(err)
		}
	})
	return info
}

// TestSentIsMoved: what was sent after a long silence has moved, though it is not
// acknowledged yet.
func TestSentIsMoved(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	deafen(t, client)
	time.Sleep(300 * time.Millisecond)
	sent := time.Now()
	if _, err := server.Write([]byte("here I am")); err != nil {
		t.Fatal(err)
	}
	r := inspect(t, server)
	if most := time.Since(sent); r.Out > most || r.Queued == 0 {
		t.Errorf("sent %v ago or less: %+v", most, r)
	}
}

// TestVanishedPeer: what is sent again and again is no progress.
func TestVanishedPeer(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	deafen(t, client)
	timeout := time.Duration(tcpInfo(t, server).Rto) * time.Microsecond
	begun := time.Now()
	if _, err := server.Write([]byte("is anybody there?")); err != nil {
		t.Fatal(err)
	}
	silent := time.Since(begun)
	for again := uint8(0); again < 3; silent = time.Since(begun) {
		again = tcpInfo(t, server).Retransmits
		if r := inspect(t, server); r.Out > time.Since(begun) || r.Queued == 0 {
			t.Fatalf("after %v: %+v", time.Since(begun), r)
		}
		if silent > patience {
			t.Fatal("it is not sent three times")
		}
		time.Sleep(time.Millisecond)
	}
	if r := inspect(t, server); r.Out < silent-3*timeout { // a probe of the tail, and the first of the three
		t.Errorf("after %v, with a timeout of %v: %+v", silent, timeout, r)
	}
}

// TestClosedWindow has a peer that reads some, with its acknowledgements delayed,
// and then takes no more, silently or not. Nothing has moved since its last
// acknowledgement, as the server sees it, though it answers window probes.
func TestClosedWindow(t *testing.T) {
	for name, talks := range map[string]bool{"silent": false, "talking": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := connect(t, "tcp", "127.0.0.1:0")
			looked, info := time.Now(), tcpInfo(t, server) // before anything moves
			go func() {
				for b, err := make([]byte, 1<<20), error(nil); err == nil; {
					_, err = server.Write(b)
				}
			}()
			go func() {
				for b, err := make([]byte, 100<<10), error(nil); talks && err == nil; time.Sleep(5 * time.Millisecond) {
					server.SetReadDeadline(time.Now().Add(patience))
					_, err = server.Read(b)
				}
			}()
			stopped := make(chan struct{})
			defer func() { <-stopped }() // the goroutine uses t
			go func() {
				b := make([]byte, 100<<10)
				for range 40 {
					client.Read(b)
					withFd(t, client, func(fd int) { unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) })
					time.Sleep(5 * time.Millisecond)
				}
				close(stopped)
				for err := error(nil); talks && err == nil; time.Sleep(5 * time.Millisecond) {
					_, err = client.Write([]byte("x"))
				}
			}()
			// What is seen to have moved has done so since the look before. Acknowledgements count while
			// bytes are queued.
			var r Report
			for moved := looked; looked.Sub(moved) < time.Second; time.Sleep(time.Millisecond) {
				before, then := info, looked
				looked, info = time.Now(), tcpInfo(t, server)
				if info.Bytes_acked != before.Bytes_acked || info.Bytes_sent != before.Bytes_sent {
					moved = then
				}
				if r = inspect(t, server); r.Queued > 0 && r.Out > time.Since(moved) {
					t.Fatalf("it has moved %v ago or less: %+v, %+v", time.Since(moved), r, info)
				}
			}
			if timeout := time.Duration(info.Rto) * time.Microsecond; r.Out < time.Second-timeout-3*jiffy {
				t.Errorf("it has moved %v ago, and the timeout is %v: %+v, %+v", time.Second, timeout, r, info)
			}
		})
	}
}

// TestShrunkWindow has a peer that makes its receive buffer smaller and reads
// nothing. What is sent again does not move, though the peer answers each time.
func TestShrunkWindow(t *testing.T) {
	t.Parallel()
	server, client := connect(t, "tcp", "127.0.0.1:0")
	if err := client.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	looked, info := time.Now(), tcpInfo(t, server) // before anything moves
	go func() {
		for b, err := make([]byte, 1<<20), error(nil); err == nil; {
			_, err = server.Write(b)
		}
	}()
	for moved := looked; ; time.Sleep(time.Millisecond) {
		before, then := info, looked
		looked, info = time.Now(), tcpInfo(t, server)
		if info.Bytes_acked != before.Bytes_acked || info.Bytes_sent-info.Bytes_retrans != before.Bytes_sent-before.Bytes_retrans {
			moved = then
		}
		r := inspect(t, server)
		silent := time.Since(moved)
		switch {
		case r.Queued > 0 && r.Out > silent:
			t.Fatalf("it has moved %v ago or less: %+v, %+v", silent, r, info)
		case info.Backoff >= 4 && r.Out > silent*2/3: // half of it, if only the last retransmission were seen
			return
		case silent > patience:
			t.Fatalf("it has moved %v ago: %+v, %+v", silent, r, info)
		}
	}
}
