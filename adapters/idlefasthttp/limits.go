package idlefasthttp

import (
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// SetTimeouts replaces the timeouts of l, also for the connections that are open. A longer limit
// holds at once. A shorter one counts from the same event as before, such as the last byte.
// Package httplimits has the details. If t isn't valid for [Wrap], or changes something that
// can't be changed, SetTimeouts fails, and nothing changes. Any goroutine may call SetTimeouts at
// any time.
func (l *Listener) SetTimeouts(t Timeouts) error { return l.inner.SetTimeouts(t) }

// RequestLimits are the limits of one request. See [httplimits.RequestLimits], which
// both HTTP adapters share.
type RequestLimits = httplimits.RequestLimits

// SetLimits gives the request of ctx limits of its own, until its end. Call it in the
// handler:
//
//	idlefasthttp.SetLimits(ctx, idlefasthttp.RequestLimits{WriteTimeout: 5 * time.Minute, WriteRate: idle.Rate{BytesPerSecond: httplimits.Off}})
//
// The handler runs when the body has been read. With Server.StreamRequestBody, it runs when 8 KiB
// of the body have been read, or all of a shorter one. So limits of a body have an effect only
// with StreamRequestBody, and only on the rest of the body.
//
// WriteTimeout and WriteRate apply to the response, which is sent after the handler has returned.
// Small responses to pipelined requests are sent together, under the limits of the last of these
// requests.
//
// SetLimits fails if ctx is not of a request that arrived on a listener of this package, or was hijacked, and if a
// field is invalid; the error names the field. Then the request keeps the limits that it
// has.
func SetLimits(ctx *fasthttp.RequestCtx, limits RequestLimits) error {
	if ctx == nil {
		return errors.New("idlefasthttp: SetLimits: the request is nil")
	}
	return httpconn.SetLimits("idlefasthttp", ctx.Conn(), ctx.ConnRequestNum(), limits)
}
