package netconn

import "reflect"

// Embedded returns what v embeds under the name of T, which is net.Listener or net.Conn, or nil. The
// listener of netutil.LimitListener, and its connections, embed such a value.
func Embedded[T any](v T) (inner T) {
	at, t := reflect.Indirect(reflect.ValueOf(v)), reflect.TypeFor[T]()
	if at.Kind() != reflect.Struct {
		return inner
	}
	field, ok := at.Type().FieldByName(t.Name())
	if !ok || !field.Anonymous || len(field.Index) > 1 || field.Type != t {
		return inner
	}
	inner, _ = at.FieldByIndex(field.Index).Interface().(T)
	return inner
}
