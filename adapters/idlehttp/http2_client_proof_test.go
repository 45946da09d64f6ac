//go:build proof

package idlehttp

import (
	"net/http"
	"testing"
)

// start2 starts a server that speaks HTTP/2, by TLS or not.
func start2(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return start(t, secure, limits, h, append(prepare, func(server *http.Server) { speak2(server, secure) })...)
}
