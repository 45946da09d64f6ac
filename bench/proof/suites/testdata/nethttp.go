package hook_test

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

func init() {
	if suitesWrap == "" {
		return
	}
	http.SuitesHook = func(s *http.Server, l net.Listener) net.Listener {
		switch fmt.Sprintf("%T", l) {
		case "idlehttp.nowhere", // Wrap serves it, to learn what speaks HTTP/2
			"*idlehttp.single": // accepts a connection that has timeouts already
			return l
		}
		if _, config := l.(interface{ IdleTimeout() time.Duration }); config { // x/net/http2 configures s by it
			return l
		}
		return wrap(l, func(l net.Listener) (net.Listener, error) {
			return idlehttp.Wrap(s, l, timeouts)
		})
	}
}
