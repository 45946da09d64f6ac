package idlehttp

import (
	"errors"
	"fmt"
	"net/http"

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

// SetLimits gives the request r limits of its own, until its end. Call it in the handler,
// before the body is read or between two reads of it:
//
//	idlehttp.SetLimits(r, idlehttp.RequestLimits{BodyTimeout: 5 * time.Minute, BodyRate: idle.Rate{BytesPerSecond: idlehttp.Off}})
//
// If the handler leaves the rest of a body unread, the server reads it under these limits too. As
// always, a read deadline that the handler sets replaces BodyTimeout and BodyRate.
//
// SetLimits fails if r did not arrive on a listener of this package, has ended or was
// hijacked, and if a field is invalid; the error names the field. Then the request keeps
// the limits that it has.
//
// In HTTP/2 the limits apply to the stream of the request. If the request's context isn't derived from the one that
// its handler got, the error matches [errors.ErrUnsupported].
func SetLimits(r *http.Request, limits RequestLimits) error {
	if r == nil {
		return errors.New("idlehttp: SetLimits: the request is nil")
	}
	c := connOf(r)
	switch {
	case c == nil:
		return errors.New("idlehttp: SetLimits: the request did not arrive on a listener of this package")
	case r.Context().Err() != nil:
		return errors.New("idlehttp: SetLimits: the request has ended, or was cancelled")
	case r.ProtoMajor == 1:
		return httpconn.SetLimits("idlehttp", c, 0, limits)
	}
	err := fmt.Errorf("the context isn't that of the request: %w", errors.ErrUnsupported)
	if x := streamOf(r); x != nil {
		err = x.limits.SetLimits(limits)
	}
	if err != nil {
		return fmt.Errorf("idlehttp: SetLimits: %w", err)
	}
	return nil
}
