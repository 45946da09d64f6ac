package idlenet

import (
	"time"

	"golang.org/x/sys/unix"
)

// inspect asks for unread input and unsent output, and on TCP when bytes moved
// last.
//
// A peer whose window is closed acknowledges probes, so that only the time of
// the last data sent tells that it takes nothing; one that has vanished is sent
// data again and again, so that only the time of the last acknowledgement
// tells. The later of the two ages is that of the last progress.
func inspect(fd uintptr) (r report, ok bool) {
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		r.unread, ok = n > 0, true
	}
	if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
		r.queued, r.counted, ok = uint64(n), true, true
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return r, ok
	}
	r.in = age(info.Last_data_recv)
	r.out = age(max(info.Last_data_sent, info.Last_ack_recv))
	r.taken = info.Bytes_acked + r.queued
	return r, true
}

// age turns milliseconds, rounded down by the kernel, into a known age.
func age(ms uint32) time.Duration { return time.Duration(ms)*time.Millisecond + 1 }
