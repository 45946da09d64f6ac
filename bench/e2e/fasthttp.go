package main

import (
	"net"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

// fasthttpServer is a fasthttp server. Ours has the timeouts that the adapter
// has by default, which are all.
func fasthttpServer() server {
	ours := func(s *fasthttp.Server, ln net.Listener) error {
		return idlefasthttp.Serve(s, ln, idlefasthttp.Timeouts{})
	}
	return server{
		run: map[string]func(func(string)) error{
			"bare": fasthttpRun(func(s *fasthttp.Server, ln net.Listener) error { return s.Serve(ln) }),
			"own": fasthttpRun(func(s *fasthttp.Server, ln net.Listener) error {
				s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = timeout, timeout, timeout
				return s.Serve(ln)
			}),
			us:       fasthttpRun(ours),
			noStream: fasthttpRun(withoutStream(ours)),
		},
		exchange: httpExchange(),
	}
}

func fasthttpRun(serve func(*fasthttp.Server, net.Listener) error) func(func(string)) error {
	return func(ready func(string)) error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		ready(ln.Addr().String())
		return serve(&fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString(greeting) }}, ln)
	}
}
