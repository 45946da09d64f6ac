package main

const grpcPath = "google.golang.org/grpc"

// Left out are the packages of xDS, whose servers wrap a listener again, and balancer and internal,
// which test clients and parts.
var grpc = suite{
	name:   "grpc",
	module: grpcPath,
	packages: []string{
		grpcPath, grpcPath + "/test", grpcPath + "/authz", grpcPath + "/binarylog", grpcPath + "/encoding", grpcPath + "/health",
		grpcPath + "/interop", grpcPath + "/orca", grpcPath + "/reflection/test", grpcPath + "/stats", grpcPath + "/stats/opentelemetry",
	},
	patches: []patch{{
		file:    grpcPath + "/server.go",
		after:   "func (s *Server) Serve(lis net.Listener) error {",
		insert:  "	if SuitesHook != nil { lis = SuitesHook(lis) }",
		declare: "SuitesHook func(net.Listener) net.Listener",
	}, {
		file:    grpcPath + "/server.go",
		after:   "		StaticWindowSize:      s.opts.staticWindowSize,\n	}",
		insert:  "	if SuitesCredentials != nil { config.Credentials = SuitesCredentials(c, config.Credentials) }",
		declare: "SuitesCredentials func(net.Conn, credentials.TransportCredentials) credentials.TransportCredentials",
	}},
	hooks: []string{"grpc.go"},
}
