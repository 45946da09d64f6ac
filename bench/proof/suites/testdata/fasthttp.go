package hook_test

import (
	"net"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

func init() {
	timeouts := timeouts
	timeouts.StreamTimeout = 0 // it doesn't speak HTTP/2
	fasthttp.SuitesHook = func(s *fasthttp.Server, l net.Listener) net.Listener {
		return wrap(l, func(l net.Listener) (net.Listener, error) {
			return idlefasthttp.Wrap(s, l, timeouts)
		})
	}
}
