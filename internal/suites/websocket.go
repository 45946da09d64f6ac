package main

const (
	coderPath   = "github.com/coder/websocket"
	gorillaPath = "github.com/gorilla/websocket"
)

// Most tests of this library are on a pipe, both ends of which get the timeouts of idlenet.
var coder = suite{
	name:     "coder",
	module:   coderPath,
	packages: []string{coderPath, coderPath + "/wsjson"},
	patches: []patch{httpServe, {
		file:    coderPath + "/internal/test/wstest/pipe.go",
		after:   "	clientConn, serverConn := net.Pipe()",
		insert:  "	if SuitesHook != nil { clientConn, serverConn = SuitesHook(clientConn), SuitesHook(serverConn) }",
		declare: "SuitesHook func(net.Conn) net.Conn",
	}},
	hooks: []string{"nethttp.go", "coder.go"},
	differences: []known{{
		test:   test{coderPath, "TestDialViaProxy"}, // its proxy
		reason: abandoned,
		race:   true,
	}},
}

var gorilla = suite{
	name:     "gorilla",
	module:   gorillaPath,
	packages: []string{gorillaPath},
	patches:  []patch{httpServe},
	hooks:    []string{"nethttp.go"},
}
