package idlehttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

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
//	idlehttp.SetLimits(r, idlehttp.RequestLimits{BodyTimeout: 5 * time.Minute, BodyRate: idle.Rate{BytesPerSecond: httplimits.Off}})
//
// If the handler leaves the rest of a body unread, the server reads it under these limits too. As
// always, a read deadline that the handler sets replaces BodyTimeout and BodyRate.
//
// SetLimits fails if r did not arrive on a listener of this package, has ended or was
// hijacked, and if a field is invalid; the error names the field. Then the request keeps
// the limits that it has.
//
// In HTTP/2 the limits apply to the stream of the request. HandlerTimeout has an effect only in
// HTTP/1, and StreamTotal only in HTTP/2. SetLimits finds the stream behind r.Body, even if that
// has been replaced with a body that has the original in a field, as http.MaxBytesReader does. If
// it cannot be found, or if no limits of single streams apply to the server (see the package's
// documentation), the error matches [errors.ErrUnsupported].
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
		return httpconn.SetLimits("idlehttp", c, limits)
	}
	id := streamOf(r.Body)
	if id == 0 {
		return fmt.Errorf("idlehttp: SetLimits: the stream of the request is not known, because its Body is a %T; call SetLimits before you replace the Body: %w", r.Body, errors.ErrUnsupported)
	}
	return httpconn.SetStreamLimits(c, id, limits)
}

// streamOf returns the id of the HTTP/2 stream that a request's body belongs to, or 0 if it finds
// none. net/http doesn't export it, so streamOf looks into net/http's own body: the field stream
// points to a struct with a field id.
func streamOf(body any) uint32 {
	const mostWrappers = 10
	v := reflect.ValueOf(body)
	for range mostWrappers {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return 0
		}
		if path := v.Type().PkgPath(); path == "net/http" || strings.HasPrefix(path, "net/http/internal") {
			if s := v.FieldByName("stream"); s.Kind() == reflect.Pointer && !s.IsNil() && s.Elem().Kind() == reflect.Struct {
				if id := s.Elem().FieldByName("id"); id.Kind() == reflect.Uint32 {
					return uint32(id.Uint())
				}
			}
		}
		v = readerIn(v)
	}
	return 0
}

// readerIn returns the first field of a struct that is an interface with a method Read, or the
// zero Value.
func readerIn(v reflect.Value) reflect.Value {
	reader := reflect.TypeFor[io.Reader]()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Interface && f.Type().Implements(reader) {
			return f
		}
	}
	return reflect.Value{}
}
