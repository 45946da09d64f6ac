package kernel

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/idle"
)

// control calls f with nc's descriptor.
func control(t *testing.T, nc net.Conn, f func(fd int)) {
	t.Helper()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { f(int(fd)) }); err != nil {
		t.Fatal(err)
	}
}

func inspect(t *testing.T, nc net.Conn) (r Report) {
	t.Helper()
	control(t, nc, func(fd int) { r = Inspect(uintptr(fd)) })
	return r
}

// TestInspect tells TCP sockets from Unix ones by what is known of them, and
// neither from nothing.
func TestInspect(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		server, client := connect(t, network, address)
		tcp := network == "tcp"
		r := inspect(t, server)
		if r.Unread || !r.Counted || r.Queued != 0 || r.Tallied != tcp || (r.In > 0) != tcp || (r.Out > 0) != tcp {
			t.Errorf("%s, new: %+v", network, r)
		}
		if !r.Pulse().Drained {
			t.Errorf("%s, new: something waits to go out", network)
		}
		before := r.Acked
		client.Write([]byte("hello"))
		eventually(t, "what was sent is unread", func() bool { return inspect(t, server).Unread })
		r = inspect(t, server)
		if p := r.Pulse(); p.In != r.In || p.Out != r.Out || !p.Unread {
			t.Errorf("%s: %+v becomes %+v", network, r, p)
		}
		server.Read(make([]byte, 5))
		if inspect(t, server).Unread {
			t.Errorf("%s: what was read is unread", network)
		}
		server.Write([]byte("hello"))
		if tcp {
			eventually(t, "what was sent is acknowledged", func() bool { r = inspect(t, server); return r.Acked == before+5 && r.Queued == 0 })
		} else if r = inspect(t, server); r.Queued == 0 || r.Pulse().Drained {
			t.Errorf("%s: nothing is queued: %+v", network, r)
		}
	}
	if r := Inspect(^uintptr(0)); r != (Report{}) || r.Pulse() != (idle.Pulse{}) {
		t.Errorf("of no descriptor it knows %+v", r)
	}
}

// TestVanishedPeer: what is sent again and again is no progress.
func TestVanishedPeer(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	control(t, client, func(fd int) {
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop}); err != nil {
			t.Skip("packets cannot be dropped: ", err)
		}
	})
	begun := time.Now()
	if _, err := server.Write([]byte("is anybody there?")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is sent three times", func() (again bool) {
		control(t, server, func(fd int) {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			again = err == nil && info.Total_retrans >= 2
		})
		return again
	})
	silent := time.Since(begun)
	if r := inspect(t, server); r.Out < silent-3*jiffy || r.Queued == 0 {
		t.Errorf("after %v: %+v", silent, r)
	}
}

// TestAge is known, and never too old.
func TestAge(t *testing.T) {
	for ms, want := range map[uint32]time.Duration{0: 1, 10: 1, 11: time.Millisecond + 1, 5000: 4990*time.Millisecond + 1} {
		if got := age(ms); got != want {
			t.Errorf("%d ms are %v, want %v", ms, got, want)
		}
	}
}
