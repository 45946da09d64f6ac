package hook_test

import (
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

func init() {
	http.SuitesHook = func(s *http.Server, l net.Listener) net.Listener {
		if _, config := l.(interface{ IdleTimeout() time.Duration }); config { // x/net/http2 configures s by it
			return l
		}
		return wrap(l, func(l net.Listener) (net.Listener, error) {
			return idlehttp.Wrap(s, l, timeouts)
		})
	}
}
