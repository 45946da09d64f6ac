package main

var nethttp = suite{
	name:     "nethttp",
	packages: []string{"net/http", "net/http/httptest", "net/http/httputil"},
	patches:  []patch{httpServe},
	hooks:    []string{"nethttp.go"},
	differences: []known{
		{
			test:   test{"net/http", "TestTLSServerWithoutTLSConn"},
			reason: "its connection is no *tls.Conn, but has a method ConnectionState, and Accept refuses what has TLS inside",
			fatal:  true,
		},
		{
			test:   test{"net/http", "TestClientServerTLSConnWrapper"}, // since Go 1.27
			reason: "its connection is no *tls.Conn, but has a method ConnectionState, and Accept refuses what has TLS inside",
		},
		{
			test:   test{"net/http", "TestAutomaticHTTP2_Serve_NonH2TLSConfig"},
			reason: "it wants Serve to set up no HTTP/2; Wrap does, as ServeTLS may be called, and leaves the TLSConfig alone",
		},
		{
			test:   test{"net/http", "TestHijackAfterCloseNotifier"},
			reason: "it wants a hijacked connection to be a *net.TCPConn, and the wrapper is handed out",
		},
		{
			test:   test{"net/http/httputil", "TestReverseProxyWebSocketHalfTCP"},
			reason: "it wants a hijacked connection to be a *net.TCPConn, and the wrapper is handed out",
		},
		{
			test:   test{"net/http", "TestWriteHeaderNoCodeCheck"},
			reason: "it wants the log to name the caller of a superfluous WriteHeader, and names the wrapper of the ResponseWriter",
		},
		{
			test:   test{"net/http", "TestWriteHeaderNoCodeCheck_h1hijack"},
			reason: "it wants the log to name the caller of a superfluous WriteHeader, and names the wrapper of the ResponseWriter",
		},
		{
			test:   test{"net/http", "TestResponseControllerHijack"},
			reason: abandoned,
			race:   true,
		},
		{
			test:   test{"net/http", "TestTransportProxy"},
			reason: abandoned,
			race:   true,
		},
	},
}

// httpServe hooks every listener that an http.Server serves, whether by httptest, by ServeTLS
// or by itself.
var httpServe = patch{
	file:    "net/http/server.go",
	after:   "func (s *Server) Serve(l net.Listener) error {",
	insert:  "	if SuitesHook != nil { l = SuitesHook(s, l) }",
	declare: "SuitesHook func(*Server, net.Listener) net.Listener",
}

// With idlehttp a hijacked connection has no limits unless Timeouts.Hijacked sets some, and
// then it is not tracked. Idlenet knows nothing of hijacking.
const abandoned = "it hijacks a connection and drops it: bare, the garbage collector closes it; idlenet keeps it until its IdleTimeout, " +
	"and its tracker with it, whose goroutine the suite takes for a leak"
