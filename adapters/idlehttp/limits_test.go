package idlehttp

import (
	"net"

	"github.com/idlewheel/idlewheel/idle"
)

func (q exchange) SetLimits(limits RequestLimits) error { return SetLimits(q.r, limits) }

func (q exchange) WatchWith(_ net.Conn, p idle.Policy, on Callbacks) error {
	return WatchWith(q.r, p, on)
}
