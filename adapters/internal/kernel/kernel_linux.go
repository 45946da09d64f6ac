package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// SeesOutput is whether Inspect reports on output.
const SeesOutput = true

// Inspect asks for unread input and unsent output, and on TCP when bytes moved
// last.
//
// A peer whose window is closed acknowledges probes, so that only the time of
// the last data sent tells that it takes nothing; one that has vanished is sent
// data again and again, so that only the time of the last acknowledgement
// tells. The later of the two ages is that of the last progress.
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
	r.Out = age(max(info.Last_data_sent, info.Last_ack_recv))
	r.Acked, r.Tallied = info.Bytes_acked, true
	return r
}

// jiffy is the longest that the grain of the kernel's ages may be: HZ is 100 at
// least. What is younger than it seems must not be taken for older.
const jiffy = 10 * time.Millisecond

// age turns the kernel's milliseconds into a known age, never too old.
func age(ms uint32) time.Duration {
	return max(time.Duration(ms)*time.Millisecond-jiffy, 0) + 1
}
