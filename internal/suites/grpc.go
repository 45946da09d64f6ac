package main

const grpcPath = "google.golang.org/grpc"

var grpc = suite{
	name:     "grpc",
	module:   grpcPath,
	packages: []string{grpcPath, grpcPath + "/test"},
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
