package main

const natsPath = "github.com/nats-io/nats-server/v2"

// Clients, gateways and leaf nodes get the timeouts of idlenet. Routes stay bare: the server
// takes their address from a *net.TCPConn, and from a URL that is nil otherwise.
var nats = suite{
	name:     "nats",
	module:   natsPath,
	packages: []string{natsPath + "/test"},
	patches: []patch{{
		file:    natsPath + "/server/server.go",
		after:   "func (s *Server) acceptConnections(l net.Listener, acceptName string, createFunc func(conn net.Conn), errFunc func(err error) bool) {",
		insert:  "	if SuitesHook != nil && acceptName != \"Route\" { l = SuitesHook(l) }",
		declare: "SuitesHook func(net.Listener) net.Listener",
	}},
	hooks: []string{"nats.go"},
	differences: []known{
		{
			test:   test{natsPath + "/test", "TestRouteGoServerShutdown"},
			reason: "it counts the goroutines of the process, and controlling trackers takes some for an instant",
		},
		{
			test:   test{natsPath + "/test", "TestNoRaceLargeClusterMem"},
			reason: "it counts what the process has allocated, and censuses, scrapes and trackers allocate as well",
		},
	},
}
