package hook_test

import (
	"net"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/idle"
)

func init() {
	if suitesWrap == "" {
		return
	}
	rate := idle.Rate{BytesPerSecond: idlefasthttp.Off}
	fasthttp.SuitesHook = func(s *fasthttp.Server, l net.Listener) net.Listener {
		return wrap(l, func(l net.Listener) (tracked, error) {
			return idlefasthttp.Wrap(s, l, idlefasthttp.Timeouts{
				HandshakeTimeout: generous,
				HeaderTimeout:    generous,
				BodyTimeout:      generous,
				BodyRate:         rate,
				HandlerTimeout:   generous,
				WriteTimeout:     generous,
				WriteRate:        rate,
				KeepAliveTimeout: generous,
			})
		})
	}
}
