//go:build !idleother

package kernel

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// TestMoved works out when output moved from what the kernel tells.
func TestMoved(t *testing.T) {
	for name, c := range map[string]struct {
		unix.TCPInfo
		queued uint64
		want   uint32
	}{
		"all acknowledged":            {unix.TCPInfo{Last_data_sent: 300, Last_ack_recv: 260}, 0, 300},
		"probed by a keepalive":       {unix.TCPInfo{Last_data_sent: 20_000, Last_ack_recv: 5, Rto: 200_000}, 0, 20_000},
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
		if got := lastOutput(&c.TCPInfo, c.queued > 0); got != c.want {
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
		r := Report{Unread: 5, Queued: queued, QueuedKnown: true}
		c.want.Unread, c.want.Queued, c.want.QueuedKnown = 5, queued, true
		if r.addTCP(&c.info); r != c.want {
			t.Errorf("%s: it knows %+v, want %+v", name, r, c.want)
		}
	}
}

// TestSentAll: the kernel isn't asked how many bytes are queued if it has said that none are. What it has not
// filled in says nothing.
func TestSentAll(t *testing.T) {
	for name, c := range map[string]struct {
		info unix.TCPInfo
		want bool
	}{
		"all acknowledged": {unix.TCPInfo{Min_rtt: 50}, true},
		"not acknowledged": {unix.TCPInfo{Min_rtt: 50, Unacked: 1}, false},
		"window closed":    {unix.TCPInfo{Min_rtt: 50, Notsent_bytes: 1}, false},
		"before Linux 4.6": {unix.TCPInfo{State: 1, Snd_mss: 1448, Pmtu: 1500, Segs_in: 3}, false},
		"none":             {unix.TCPInfo{}, false},
	} {
		if got := hasSentAll(&c.info); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestLeftMeanwhile: bytes that waited when TCP_INFO was read, and had left when the length of the queue was, count
// as acknowledged when the kernel says.
func TestLeftMeanwhile(t *testing.T) {
	for name, info := range map[string]unix.TCPInfo{
		"not acknowledged": {Unacked: 1},
		"not sent":         {Notsent_bytes: 1},
	} {
		info.Snd_mss, info.Pmtu, info.Rto = 1448, 1500, 200_000
		info.Last_data_sent, info.Last_ack_recv = 400, 300
		r := Report{QueuedKnown: true}
		if r.addTCP(&info); r.Out != age(300) {
			t.Errorf("%s: %+v", name, r)
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

// TestQueueIsOfStreams: a datagram that does not fit is not written in part.
func TestQueueIsOfStreams(t *testing.T) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if made, notifies := Queue(c, nobody{}); made != c || notifies {
		t.Errorf("it becomes a %T", made)
	}
}
