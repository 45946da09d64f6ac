package idle

import (
	"net"
	"time"
)

// An End says how a tracked connection has ended.
type End struct {
	Time   time.Time
	Reason Reason // 0 if its owner has closed it, or it was handed back by Close
	Phase  string // Policy.Name of its phase
	Cause  string // of [Tracker.Shed] and [Conn.End]
	Label  string // see Options.Label

	Age  time.Duration // see [Conn.Age]
	Idle time.Duration // since its last activity
	Late time.Duration // how long after it was due, for the Reason of a limit
}

// remoteAddr is the default of Options.Label.
func remoteAddr(owner any) string {
	if peer, ok := owner.(interface{ RemoteAddr() net.Addr }); ok {
		if addr := peer.RemoteAddr(); addr != nil {
			return addr.String()
		}
	}
	return ""
}
