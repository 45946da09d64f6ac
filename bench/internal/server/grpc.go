package server

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/adapters/idlegrpc"
	"github.com/idlewheel/idlewheel/idle"
)

// EchoMethod is the method of the gRPC server. It takes and returns a wrapperspb.BytesValue.
const EchoMethod = "/bench.Echo/Echo"

var echoService = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			message := new(wrapperspb.BytesValue)
			return message, decode(message)
		},
	}},
}

func newGRPC(c Config, ln net.Listener) (*Server, error) {
	s := new(Server)
	var options []grpc.ServerOption
	switch c.Variant {
	case Own:
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: c.Own, Time: c.Own, Timeout: c.Own}))
	case Ours:
		l, err := idlegrpc.Wrap(ln, c.Timeouts)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(l.Credentials(nil)))
		ln, s.Tracker, s.Stats = l, l.Tracker(), func() idle.Stats { return l.Stats().Stats }
	}
	g := grpc.NewServer(options...)
	g.RegisterService(&echoService, nil)
	s.serve = func() error { return g.Serve(ln) }
	s.stop = func() error {
		g.Stop()
		return nil
	}
	return s, nil
}
