package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// SeesOutput is whether Inspect reports on output.
const SeesOutput = true

// Inspect asks for unread input and unsent output, and on TCP when bytes moved
// last; see moved.
func Inspect(fd uintptr) (r Report) {
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		r.Unread = n > 0
	}
	if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
		r.Queued, r.Counted = uint64(n), true
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return r
	}
	r.In = age(info.Last_data_recv)
	r.Out = age(moved(info, r.Queued))
	r.Acked, r.Tallied = info.Bytes_acked, true
	return r
}

// moved returns how many milliseconds ago output last moved, or less. It moves
// when new bytes are sent and, as long as some are queued, when the peer
// acknowledges some.
//
// The kernel has the times of the last data sent and of the last
// acknowledgement received, but both go on without anything moving: a peer that
// has vanished is sent the same data again and again, and a peer whose window is
// closed acknowledges one window probe after the other. Retransmissions and
// probes back off, however: each comes twice as long after the one before, and
// the first comes a retransmission timeout after the last progress. So their
// number tells for how long they have gone on.
func moved(info *unix.TCPInfo, queued uint64) (ms uint32) {
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
	// Data that is not acknowledged within a timeout is sent again, so the peer has
	// acknowledged none later than that after some was last sent. It is the only
	// bound if the peer sends data, each segment of which has an acknowledgement.
	acked = max(acked, last-min(last, timeout))
	return min(sent, acked)
}

// maxBackoff is how many window probes can be told apart by the time between them,
// which does not grow beyond two minutes.
const maxBackoff = 9

// jiffy is the longest that the grain of the kernel's ages may be: HZ is 100 at
// least. What is younger than it seems must not be taken for older.
const jiffy = 10 * time.Millisecond

// age turns the kernel's milliseconds into a known age, never too old.
func age(ms uint32) time.Duration {
	return max(time.Duration(ms)*time.Millisecond-jiffy, 0) + 1
}
