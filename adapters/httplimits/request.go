package httplimits

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// RequestLimits are the limits of one request, which its handler sets by
// SetLimits of the adapter: a longer BodyTimeout and no BodyRate for an upload by
// hand, or another WriteRate for a download.
//
// The fields are those of [Timeouts]. In every field, zero means the limit that the
// listener has, [Off] disables the limit, and any other negative value is an error. A
// rate without a Grace has one of 5 s.
//
// All limits of the request start over with the call, HandlerTimeout included. They
// end with the request: the next one on the connection has the limits of the
// listener, even if it was pipelined. Errors, OnTimeout and Stats name the same
// phase and settings as for the listener's limits.
type RequestLimits struct {
	BodyTimeout    time.Duration
	BodyRate       idle.Rate
	HandlerTimeout time.Duration
	WriteTimeout   time.Duration
	WriteRate      idle.Rate
}
