package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// SeesOutput reports whether Inspect finds out anything about output.
const SeesOutput = true

// Inspect reports what the kernel knows about the socket: unread input, the bytes
// in the send buffer and, for TCP, when input last arrived and output last moved.
// See lastOutput for what counts as output that moves.
func Inspect(fd uintptr) (r Report) {
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		r.Unread = n > 0
	}
	if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
		r.Queued, r.QueuedKnown = uint64(n), true
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Rto == 0 { // an emulator may fill in less, and the rest would say that input has just arrived
		return r
	}
	r.In = age(info.Last_data_recv)
	r.Out = age(lastOutput(info, r.Queued))
	r.Acked, r.AckedKnown = info.Bytes_acked, true
	return r
}

// lastOutput returns for how many milliseconds output has not moved. The result
// may be too small but is never too large. Output moves when new bytes are sent,
// and when the peer acknowledges bytes while some are queued.
//
// The kernel records when it last sent data and when it last received an
// acknowledgement. Neither time alone will do, because both advance although
// nothing moves: data is retransmitted to a peer that has vanished, and a peer
// with a closed window acknowledges each window probe. But retransmissions and
// probes back off. The first follows the last progress after one retransmission
// timeout, and each later one after twice the previous interval. So their number
// tells for how long they have been going on.
func lastOutput(info *unix.TCPInfo, queued uint64) (ms uint32) {
	last, acked, timeout := info.Last_data_sent, info.Last_ack_recv, info.Rto/1000
	sent := last
	if n := info.Retransmits; n > 0 { // the timeout has been doubled n times
		sent += timeout - timeout>>(n-1)
	}
	if queued == 0 { // the last acknowledgement may be that of a keepalive probe
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
