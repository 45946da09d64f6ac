package idlefasthttp

import (
	"net"

	"github.com/idlewheel/idlewheel/idle"
)

func (q exchange) SetLimits(limits RequestLimits) error { return q.l.SetLimits(q.ctx, limits) }

func (q exchange) WatchWith(nc net.Conn, p idle.Policy, on Callbacks) error {
	return q.l.WatchWith(nc, p, on)
}
