package httpconn

import (
	"crypto/tls"
	"fmt"
	"net"
	"reflect"
)

// net/http and fasthttp recognise TLS by the type of the connection that Accept
// returns: *tls.Conn. So a Conn has to lie below TLS, and a listener of crypto/tls
// is taken apart: the [Listener] accepts from what is inside, and puts TLS on top of
// its own connections, as tls.NewListener would have.

// takeApart returns the listener inside ln and its config if ln is a listener of
// crypto/tls, and else ln itself. It fails if there is TLS in ln that is out of
// reach.
func takeApart(ln net.Listener) (inner net.Listener, config *tls.Config, secure bool, err error) {
	if !isTLS(ln) {
		if embedsTLS(ln) {
			return nil, nil, false, errBehind(ln)
		}
		return ln, nil, false, nil
	}
	v := reflect.ValueOf(ln).Elem()
	within, own := v.FieldByName("Listener"), v.FieldByName("config")
	if v.NumField() != 2 || within.Type() != reflect.TypeFor[net.Listener]() || own.Type() != reflect.TypeFor[*tls.Config]() {
		return nil, nil, false, errBehind(ln)
	}
	inner, _ = within.Interface().(net.Listener)
	if embedsTLS(inner) {
		return nil, nil, false, errBehind(ln)
	}
	return inner, (*tls.Config)(own.UnsafePointer()), true, nil
}

// TLSConfig returns the config of ln if that is a listener of crypto/tls, else nil.
func TLSConfig(ln net.Listener) *tls.Config {
	_, config, _, _ := takeApart(ln)
	return config
}

// isTLS reports whether ln comes from tls.NewListener or tls.Listen.
func isTLS(ln net.Listener) bool {
	return reflect.TypeOf(ln) == reflect.TypeOf(tls.NewListener(nil, nil))
}

// embedsTLS reports whether ln is a struct that embeds a listener of crypto/tls,
// directly or by way of others, as that of netutil.LimitListener does.
func embedsTLS(ln net.Listener) bool {
	for !isTLS(ln) {
		v := reflect.Indirect(reflect.ValueOf(ln))
		if v.Kind() != reflect.Struct {
			return false
		}
		field, ok := v.Type().FieldByName("Listener")
		if !ok || !field.Anonymous || len(field.Index) > 1 || field.Type != reflect.TypeFor[net.Listener]() {
			return false
		}
		ln, _ = v.FieldByIndex(field.Index).Interface().(net.Listener)
	}
	return true
}

// carriesTLS reports whether nc is a connection of TLS.
func carriesTLS(nc net.Conn) bool {
	_, yes := nc.(interface{ ConnectionState() tls.ConnectionState })
	return yes
}

// errBehind refuses v, a listener or a connection, which has TLS where a server
// would no longer recognise it.
func errBehind(v any) error {
	return fmt.Errorf("a %T brings TLS of its own, and timeouts have to be below it; "+
		"use ServeTLS, or put TLS outermost: tls.NewListener(l, config)", v)
}
