package httpconn

import (
	"crypto/tls"
	"fmt"
	"net"
	"reflect"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
)

// net/http and fasthttp recognise TLS by the type that Accept returns, *tls.Conn.
// So a Conn has to be below TLS. If the user passes a listener of crypto/tls, the
// [Listener] accepts from the listener inside it, and puts TLS on top of its own
// connections as tls.NewListener does.

// splitTLS returns the inner listener and the config if ln is a listener of
// crypto/tls, and otherwise ln itself. It fails if ln hides a TLS listener that
// cannot be reached.
func splitTLS(ln net.Listener) (inner net.Listener, config *tls.Config, secure bool, err error) {
	if !isTLS(ln) {
		if embedsTLS(ln) {
			return nil, nil, false, errHiddenTLS(ln)
		}
		return ln, nil, false, nil
	}
	v := reflect.ValueOf(ln).Elem()
	within, own := v.FieldByName("Listener"), v.FieldByName("config")
	if v.NumField() != 2 || within.Type() != reflect.TypeFor[net.Listener]() || own.Type() != reflect.TypeFor[*tls.Config]() {
		return nil, nil, false, errHiddenTLS(ln)
	}
	inner, _ = within.Interface().(net.Listener)
	if embedsTLS(inner) {
		return nil, nil, false, errHiddenTLS(ln)
	}
	return inner, (*tls.Config)(own.UnsafePointer()), true, nil
}

// TLSConfig returns the config of ln if ln is a listener of crypto/tls, and nil
// otherwise.
func TLSConfig(ln net.Listener) *tls.Config {
	_, config, _, _ := splitTLS(ln)
	return config
}

// isTLS reports whether ln was made by tls.NewListener or tls.Listen.
func isTLS(ln net.Listener) bool {
	return reflect.TypeOf(ln) == reflect.TypeOf(tls.NewListener(nil, nil))
}

// embedsTLS reports whether ln is a struct that embeds a listener of crypto/tls,
// directly or through others. One example is the listener of
// netutil.LimitListener.
func embedsTLS(ln net.Listener) bool {
	for ; ln != nil; ln = netconn.Embedded(ln) {
		if isTLS(ln) {
			return true
		}
	}
	return false
}

// carriesTLS reports whether nc is a TLS connection.
func carriesTLS(nc net.Conn) bool {
	_, yes := nc.(interface{ ConnectionState() tls.ConnectionState })
	return yes
}

// errHiddenTLS returns the error for v, a listener or a connection that contains
// TLS where a server does not recognise it.
func errHiddenTLS(v any) error {
	return fmt.Errorf("a %T brings TLS of its own, but timeouts must be below TLS; "+
		"use ServeTLS, or put TLS outermost: tls.NewListener(l, config)", v)
}
