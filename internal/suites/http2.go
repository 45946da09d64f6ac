package main

const http2Path = "golang.org/x/net/http2"

// Servers that listen are wrapped as those of net/http. Most tests serve a connection in a
// bubble of testing/synctest, which gets the timeouts of idlenet.
var http2 = suite{
	name:     "http2",
	module:   "golang.org/x/net",
	packages: []string{http2Path, http2Path + "/h2c"},
	patches: []patch{httpServe, {
		file:    http2Path + "/server_common.go",
		after:   "func (s *Server) ServeConn(c net.Conn, opts *ServeConnOpts) {",
		insert:  "	if SuitesHook != nil { c = SuitesHook(c) }",
		declare: "SuitesHook func(net.Conn) net.Conn",
	}},
	hooks: []string{"nethttp.go", "http2.go"},
}
