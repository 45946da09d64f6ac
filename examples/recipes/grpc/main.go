// Command grpc is a grpc-go server on a listener of idlenet. idlenet limits bytes, and grpc-go what
// only the frames show: pings, calls and the age of a connection.
//
//	go -C examples/recipes run ./grpc
//
// This holds:
//
//	no TLS handshake, or no HTTP/2 preface     ConnectionTimeout of grpc-go, 10 s in all
//	a client that doesn't read its connection  WriteTimeout of idlenet, 20 s
//	a client that has vanished                 pings of grpc-go: after 1 min, closed after 20 s more
//	a connection without calls                 MaxConnectionIdle, 5 min, whoever pings
//	an old connection                          MaxConnectionAge, 30 min, and 1 min for its calls
//	many connections                           Capacity of idlenet
//	many connections of one address            PerKey of package admit
//	nothing in either direction                IdleTimeout of idlenet, if all of these fail
//
// This doesn't: idlenet knows no calls. A call that stalls, or whose messages trickle, isn't limited
// by bytes, because pings and other calls keep its connection busy. Nor does WriteTimeout find a
// client that reads the connection but not one of its calls. Use deadlines. Clients should set
// them, but an attacker won't, so the server sets one for each call in a tap handle. An interceptor
// would be too late: the interceptor of a unary call runs when the message has arrived.
//
// A stream that may be silent for hours has no deadline. Pings keep its connection alive, and
// MaxConnectionAge ends it: the client has to open it again. The client may ping too. By default
// grpc-go takes pings more often than every 5 min for abuse and closes the connection
// (envoyproxy/go-control-plane#449), so EnforcementPolicy allows what clients of grpc-go may set.
//
// To shut down, call GracefulStop, and Stop if calls take too long. Don't drain the tracker: it would
// cut calls. MaxConnectionAge varies by a tenth, so clients don't all come back at once.
//
// Without TLS, an idle connection costs 32 kB more than without idlenet, because grpc-go keeps a read
// buffer for connections that aren't a *net.TCPConn. grpc.ReadBufferSize makes it smaller.
package main

import (
	"context"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"github.com/idlewheel/idlewheel/adapters/admit"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving gRPC without TLS on ", ln.Addr())
	log.Fatal(serve(ln))
}

// serve serves the health service. TLS would be an option of the server, grpc.Creds: it goes on top
// of idlenet's connections.
func serve(ln net.Listener) error {
	gate, err := admit.New(admit.Limits{PerKey: 100})
	if err != nil {
		return err
	}
	// IdleTimeout is longer than Time and Timeout together, so that pings keep a silent stream alive.
	l, err := idlenet.Wrap(gate.Listener(ln), idle.Policy{IdleTimeout: 2 * time.Minute, WriteTimeout: 20 * time.Second}, nil)
	if err != nil {
		return err
	}
	if err := l.Tracker().SetCapacity(idle.Capacity{MaxConns: 10_000}); err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     5 * time.Minute,
			MaxConnectionAge:      30 * time.Minute,
			MaxConnectionAgeGrace: time.Minute,
			Time:                  time.Minute,
			Timeout:               20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             5 * time.Second, // clients may ping every 10 s, and the network bunches pings
			PermitWithoutStream: true,
		}),
		grpc.InTapHandle(setDeadline),
	)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return server.Serve(l)
}

// setDeadline gives each call 30 seconds, but not those streams that may go on.
func setDeadline(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName == grpc_health_v1.Health_Watch_FullMethodName {
		return ctx, nil
	}
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	context.AfterFunc(ctx, cancel) // grpc-go ends ctx with the call
	return limited, nil
}
