//go:build !idleother

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

// withFd calls f with nc's descriptor.
func withFd(t *testing.T, nc net.Conn, f func(fd int)) {
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
	withFd(t, nc, func(fd int) { r = Inspect(uintptr(fd)) })
	return r
}

// TestInspect tells TCP sockets from Unix ones by what is known of them, and
// neither from nothing.
func TestInspect(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		server, client := connect(t, network, address)
		tcp := network == "tcp"
		r := inspect(t, server)
		if r.Unread || !r.QueuedKnown || r.Queued != 0 || r.AckedKnown != tcp || (r.In > 0) != tcp || (r.Out > 0) != tcp {
			t.Errorf("%s, new: %+v", network, r)
		}
		if !r.Evidence().OutEmpty {
			t.Errorf("%s, new: something waits to go out", network)
		}
		before := r.Acked
		client.Write([]byte("hello"))
		eventually(t, "what was sent is unread", func() bool { return inspect(t, server).Unread })
		r = inspect(t, server)
		if p := r.Evidence(); p.In != r.In || p.Out != r.Out || !p.Unread {
			t.Errorf("%s: %+v becomes %+v", network, r, p)
		}
		if InspectConn(wrapper{Conn: server}) != inspect(t, server) && !tcp { // of TCP, times pass
			t.Errorf("%s: InspectConn does not find the socket", network)
		}
		server.Read(make([]byte, 5))
		if inspect(t, server).Unread {
			t.Errorf("%s: what was read is unread", network)
		}
		server.Write([]byte("hello"))
		if tcp {
			eventually(t, "what was sent is acknowledged", func() bool {
				r = inspect(t, server)
				return r.Acked == before+5 && r.Queued == 0 && Acked(server) == r.Acked
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

// TestMoved works out when output moved from what the kernel tells.
func TestMoved(t *testing.T) {
	for name, c := range map[string]struct {
		unix.TCPInfo
		queued uint64
		want   uint32
	}{
		"all acknowledged":            {unix.TCPInfo{Last_data_sent: 300, Last_ack_recv: 260}, 0, 300},
		"probed by a keepalive":       {unix.TCPInfo{Last_data_sent: 20_000, Last_ack_recv: 5}, 0, 20_000},
		"just sent":                   {unix.TCPInfo{Last_data_sent: 0, Last_ack_recv: 300, Unacked: 1}, 1, 0},
		"acknowledged with a delay":   {unix.TCPInfo{Last_data_sent: 500, Last_ack_recv: 460, Rto: 200_000}, 1, 460},
		"sent again once":             {unix.TCPInfo{Last_data_sent: 100, Last_ack_recv: 900, Unacked: 1, Retransmits: 1, Backoff: 1, Rto: 400_000}, 1, 100},
		"sent again three times":      {unix.TCPInfo{Last_data_sent: 100, Last_ack_recv: 9000, Unacked: 1, Retransmits: 3, Backoff: 3, Rto: 1_600_000}, 1, 1300},
		"closed, and not probed yet":  {unix.TCPInfo{Last_data_sent: 190, Last_ack_recv: 150, Rto: 200_000}, 1, 150},
		"closed, with one probe":      {unix.TCPInfo{Last_data_sent: 500, Last_ack_recv: 260, Backoff: 1, Rto: 200_000}, 1, 460},
		"closed, with three probes":   {unix.TCPInfo{Last_data_sent: 1500, Last_ack_recv: 60, Backoff: 3, Rto: 200_000}, 1, 1460},
		"closed, with one unanswered": {unix.TCPInfo{Last_data_sent: 700, Last_ack_recv: 460, Backoff: 2, Probes: 1, Rto: 200_000}, 1, 660},
		"closed, and talking":         {unix.TCPInfo{Last_data_sent: 700, Last_ack_recv: 5, Rto: 200_000}, 1, 500},
		"closed for very long":        {unix.TCPInfo{Last_data_sent: 4_000_000_000, Last_ack_recv: 5, Backoff: 255, Rto: 120_000_000}, 1, 4_000_000_000 - 120_000},

		// Captured: the peer has set its receive buffer to 4096 bytes after the handshake.
		"shrunk":                    {shrunk(unix.TCPInfo{Last_data_sent: 624, Last_ack_recv: 624, Backoff: 6, Rto: 13_056_000}), 1, 13_272},
		"shrunk, sent again once":   {shrunk(unix.TCPInfo{Last_data_sent: 84, Last_ack_recv: 84, Backoff: 1, Rto: 408_000}), 1, 84},
		"shrunk, and talking":       {shrunk(unix.TCPInfo{Last_data_sent: 3188, Last_ack_recv: 5, Backoff: 4, Rto: 3_264_000}), 1, 6044},
		"shrunk, not acknowledged":  {shrunk(unix.TCPInfo{Last_data_sent: 100, Last_ack_recv: 9000, Retransmits: 3, Backoff: 4, Rto: 1_600_000}), 1, 1300},
		"shrunk, no timestamps":     {unix.TCPInfo{Ca_state: stateLoss, Options: 6, Unacked: 1, Last_data_sent: 624, Last_ack_recv: 624, Backoff: 6, Rto: 13_056_000}, 1, 624},
		"reopened, by less than it": {unix.TCPInfo{Ca_state: stateLoss, Options: 7, Unacked: 1, Snd_wnd: 4096, Last_data_sent: 2, Last_ack_recv: 1, Backoff: 6, Rto: 200_000}, 1, 1},
		"closed again, no loss":     {unix.TCPInfo{Options: 7, Unacked: 1, Last_data_sent: 2, Last_ack_recv: 1, Backoff: 6, Rto: 200_000}, 1, 1},
	} {
		if got := lastOutput(&c.TCPInfo, c.queued); got != c.want {
			t.Errorf("%s: last output %d ms ago, want %d", name, got, c.want)
		}
	}
}

// shrunk completes info by what all connections have whose peer has closed its
// window to data that were sent already.
func shrunk(info unix.TCPInfo) unix.TCPInfo {
	info.Ca_state, info.Options, info.Unacked = stateLoss, 7, 1
	return info
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

// TestPartialInfo: what a system does not fill in is not known.
func TestPartialInfo(t *testing.T) {
	whole := unix.TCPInfo{
		State: 1, Rto: 200_000, Snd_mss: 1448, Last_data_sent: 400, Last_data_recv: 300, Last_ack_recv: 200, Pmtu: 1500,
		Bytes_acked: 7, Segs_in: 3,
	}
	old := whole // before Linux 4.2
	old.Bytes_acked, old.Segs_in = 0, 0
	for name, c := range map[string]struct {
		info unix.TCPInfo
		want Report
	}{
		"whole":  {whole, Report{In: age(300), Out: age(200), AckedKnown: true, Acked: 7}},
		"new":    {unix.TCPInfo{State: 1, Rto: 200_000, Snd_mss: 1448, Pmtu: 1500, Segs_in: 1}, Report{In: 1, Out: 1, AckedKnown: true}},
		"old":    {old, Report{In: age(300), Out: age(200)}},
		"gVisor": {unix.TCPInfo{State: 1, Options: 7, Rto: 200_000, Rtt: 50, Rttvar: 20, Snd_ssthresh: 1 << 30, Snd_cwnd: 10, Reord_seen: 1}, Report{}},
		"qemu":   {unix.TCPInfo{State: 1, Ca_state: 1, Retransmits: 1, Probes: 1}, Report{}},
		"none":   {unix.TCPInfo{}, Report{}},
	} {
		const queued = 1
		r := Report{Unread: true, Queued: queued, QueuedKnown: true}
		c.want.Unread, c.want.Queued, c.want.QueuedKnown = true, queued, true
		if r.addTCP(&c.info); r != c.want {
			t.Errorf("%s: it knows %+v, want %+v", name, r, c.want)
		}
	}
}

// TestMultipath: TCP_INFO of an MPTCP socket describes one subflow, so nothing is
// concluded from it.
func TestMultipath(t *testing.T) {
	var config net.ListenConfig
	config.SetMultipathTCP(true)
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, multipath := range []bool{true, false} {
		var dialer net.Dialer
		dialer.SetMultipathTCP(multipath)
		client, err := dialer.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if is, err := server.(*net.TCPConn).MultipathTCP(); err != nil || is != multipath {
			t.Skip("this system has no MPTCP: ", err)
		}
		if r := inspect(t, server); r.AckedKnown == multipath || (r.In != 0) == multipath || (r.Out != 0) == multipath {
			t.Errorf("multipath %v: %+v", multipath, r)
		}
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
