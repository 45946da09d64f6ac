//go:build !idleother

package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// SeesOutput reports whether Inspect fills in Out and Acked of TCP sockets. If it doesn't,
// netconn writes in small steps, and counts each step that the kernel accepts as progress.
const SeesOutput = true

// Inspect reports what the kernel knows about the socket: unread input, the bytes
// in the send buffer and, for TCP, when input last arrived and output last moved.
// See lastOutput for what counts as output that moves.
func Inspect(fd uintptr) (r Report) {
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		r.Unread = n
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	isTCP := err == nil && !isMultipath(fd)
	if isTCP && hasSentAll(info) { // most connections that time out; a system call less for each
		r.QueuedKnown = true
	} else if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
		r.Queued, r.QueuedKnown = uint64(n), true
	}
	if isTCP {
		r.addTCP(info)
	}
	return r
}

// isMultipath reports whether a socket is one of MPTCP. Its TCP_INFO describes only one of the subflows.
func isMultipath(fd uintptr) bool {
	proto, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && proto == unix.IPPROTO_MPTCP
}

// hasSentAll reports whether everything has been sent and acknowledged. Notsent_bytes came with Linux
// 4.6, together with Min_rtt, which is never 0 on an established connection; see addTCP.
func hasSentAll(info *unix.TCPInfo) bool {
	return info.Min_rtt != 0 && info.Unacked == 0 && info.Notsent_bytes == 0
}

// addTCP adds what info contains to r. Not every system fills in all of it: gVisor
// has the first fields and few others, an emulator may stop after the first four
// bytes, and a kernel before 4.2 does not have the counters. What is not filled in
// is 0. So a field counts only if one next to it, which is never 0 on an
// established connection, is not 0.
func (r *Report) addTCP(info *unix.TCPInfo) {
	if info.Snd_mss != 0 && info.Pmtu != 0 {
		r.In = age(info.Last_data_recv)
		// What was queued when info was made may have left before Queued was asked for.
		waits := r.Queued > 0 || info.Unacked > 0 || info.Notsent_bytes > 0
		r.Out = age(lastOutput(info, waits))
	}
	r.NotSent = uint64(info.Notsent_bytes)
	if info.Segs_in != 0 { // it has counted the handshake
		r.Acked, r.AckedKnown = info.Bytes_acked, true
	}
}

func queued(fd uintptr) uint64 {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return uint64(n)
}

// lastOutput returns for how many milliseconds output has not moved. waits says whether
// any is queued. The result may be too small but is never too large. Output moves when new bytes are sent,
// and when the peer acknowledges bytes while some are queued.
//
// The kernel records when it last sent data and when it last received an acknowledgement. Neither
// time alone will do, because both advance although nothing moves: data is retransmitted to a
// peer that has vanished, and a peer with a closed window acknowledges each window probe. But
// retransmissions and probes back off. The first follows the last progress after one
// retransmission timeout, and each later one after twice the previous interval. So their number
// shows how long they have been going on.
func lastOutput(info *unix.TCPInfo, waits bool) (ms uint32) {
	last, acked, timeout := info.Last_data_sent, info.Last_ack_recv, info.Rto/1000
	sent := last
	n := info.Retransmits
	shrunk := hasShrunk(info)
	if shrunk {
		n = info.Backoff
	}
	if n > 0 { // the timeout has been doubled n times
		sent += timeout - timeout>>(n-1)
	}
	if !waits || shrunk { // the last acknowledgement was for a keepalive probe, or repeats an earlier one
		return sent
	}
	if n := int(info.Backoff) - int(info.Probes); info.Unacked == 0 && n > 0 {
		acked += timeout<<min(n, maxBackoff) - timeout
	}
	// Unacknowledged data is retransmitted after one timeout. So the peer's last
	// acknowledgement came at most one timeout after data was last sent. This is
	// the only bound if the peer sends data itself, because each of its segments
	// carries an acknowledgement.
	acked = max(acked, last-min(last, timeout))
	return min(sent, acked)
}

// hasShrunk reports whether the peer has closed its window to data that were sent
// already. Each retransmission is a window probe then, which the peer answers. The
// kernel counts such retransmissions in Backoff but not in Retransmits.
//
// Backoff must count from the last progress. Without timestamps it does not,
// because the kernel resets it only when it can measure a round trip, and it cannot
// do that with the acknowledgement of a retransmission (RFC 6298, Karn's algorithm).
// A peer without timestamps can therefore put off a timeout, but by no more than
// the interval between two retransmissions.
func hasShrunk(info *unix.TCPInfo) bool {
	return info.Snd_wnd == 0 && info.Unacked > 0 && info.Retransmits == 0 &&
		info.Ca_state == stateLoss && info.Options&optTimestamps != 0
}

// From the kernel's tcp.h.
const (
	stateLoss     = 4 // TCP_CA_Loss: the retransmission timeout has passed
	optTimestamps = 1 // TCPI_OPT_TIMESTAMPS
)

// maxBackoff is the number of window probes after which the interval between them
// stops growing. The kernel limits that interval to two minutes.
const maxBackoff = 9

// jiffy is the coarsest resolution of the kernel's ages: HZ is at least 100.
const jiffy = 10 * time.Millisecond

// age converts an age in milliseconds to a Duration. It subtracts the resolution,
// so the result is never too old, and adds 1, so that it is never 0, which would
// mean "unknown".
func age(ms uint32) time.Duration {
	return max(time.Duration(ms)*time.Millisecond-jiffy, 0) + 1
}
