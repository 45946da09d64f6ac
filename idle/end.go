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
	Cause  string // of [Tracker.Shed] and [Conn.End]; the first 128 bytes
	Label  string // see Options.Label

	Age  time.Duration // see [Conn.Age]
	Idle time.Duration // since its last use, see [Conn.Idle]
	Late time.Duration // how long after it was due, for the Reason of a limit
}

// label is the default of Options.Label.
func label(owner any) string {
	if addr := knownAddr(owner); addr != nil {
		return addr.String()
	}
	return ""
}

// knownAddr returns the address of an owner's peer, or nil if there is none, or it is not
// known yet.
func knownAddr(owner any) net.Addr {
	switch peer := owner.(type) {
	case interface{ KnownAddr() net.Addr }:
		return peer.KnownAddr()
	case interface{ RemoteAddr() net.Addr }:
		return peer.RemoteAddr()
	}
	return nil
}
