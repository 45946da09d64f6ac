package main

// Connections that tests accept get the timeouts of idlenet, below TLS.
var tls = suite{
	name:     "tls",
	packages: []string{"crypto/tls"},
	patches: []patch{{
		file:    "crypto/tls/handshake_test.go",
		after:   "func localServer(l net.Listener) {",
		insert:  "	if SuitesHook != nil { l = SuitesHook(l) }",
		declare: "SuitesHook func(net.Listener) net.Listener",
	}, {
		file:   "crypto/tls/tls_test.go",
		after:  "		ln, err = net.Listen(\"tcp6\", \"[::1]:0\")\n	}\n	if err != nil {\n		t.Fatal(err)\n	}",
		insert: "	if SuitesHook != nil { ln = SuitesHook(ln) }",
	}},
	hooks: []string{"tls.go"},
}
