package main

const fasthttpPath = "github.com/valyala/fasthttp"

var fasthttp = suite{
	name:     "fasthttp",
	module:   fasthttpPath,
	packages: []string{fasthttpPath, fasthttpPath + "/fasthttpadaptor", fasthttpPath + "/fasthttpproxy"},
	patches: []patch{{
		file:    fasthttpPath + "/server.go",
		after:   "func (s *Server) Serve(ln net.Listener) error {",
		insert:  "	if SuitesHook != nil { ln = SuitesHook(s, ln) }",
		declare: "SuitesHook func(*Server, net.Listener) net.Listener",
	}},
	hooks: []string{"fasthttp.go"},
}
