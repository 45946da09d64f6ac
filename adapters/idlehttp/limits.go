package idlehttp

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// SetTimeouts replaces the timeouts of l, also for the connections that are open. A
// longer limit holds at once. A shorter one counts from where it always counts, such
// as the last byte. Package httplimits has the details. If t is not valid for
// [NewListener], or changes what cannot be changed, nothing is changed. Any goroutine
// may call SetTimeouts at any time.
func (l *Listener) SetTimeouts(t Timeouts) error { return l.Listener.SetTimeouts(t) }

// FollowPressure makes the timeouts of l tighter while a resource runs out, also for the
// connections that are open. See [pressure.Follow] for c, whose Policy and Phases must not
// be set. At full pressure the timeouts are those of full, where zero means as at rest. Stop
// of the Follower ends it, and so does the end of the listener and its connections. If
// FollowPressure fails, nothing is changed. It fails while there is another Follower of l.
func (l *Listener) FollowPressure(c pressure.Config, full Timeouts) (*pressure.Follower, error) {
	return l.Listener.FollowPressure(c, full)
}

// RequestLimits are the limits of one request. See [httplimits.RequestLimits], which
// both HTTP adapters share.
type RequestLimits = httplimits.RequestLimits

// SetLimits gives the request r limits of its own, until its end. Call it in the handler,
// before the body is read or between two reads of it:
//
//	idlehttp.SetLimits(r, idlehttp.RequestLimits{BodyTimeout: 5 * time.Minute})
//
// The rest of a body that the handler leaves unread is read by these limits too. A read
// deadline of the handler's replaces BodyTimeout and BodyRate as it always does.
//
// SetLimits fails if r did not arrive on a listener of this package, has ended or was
// hijacked, and if a field is invalid; the error names the field. Then the request keeps
// the limits that it has.
//
// A request of HTTP/2 cannot have limits of its own: net/http does not tell which stream
// it is. The error then matches [errors.ErrUnsupported].
func SetLimits(r *http.Request, limits RequestLimits) error {
	c, ok := r.Context().Value(connKey{}).(*httpconn.Conn)
	switch {
	case !ok:
		return errors.New("idlehttp: SetLimits: the request did not arrive on a listener of this package")
	case r.ProtoMajor != 1:
		return fmt.Errorf("idlehttp: SetLimits: a request of HTTP/2 cannot have limits of its own, as net/http does not tell which stream it is; set the listener's: %w", errors.ErrUnsupported)
	case r.Context().Err() != nil:
		return errors.New("idlehttp: SetLimits: the request has ended, or was cancelled")
	}
	return httpconn.SetLimits(httpconn.ListenerOf(c), c, limits)
}
