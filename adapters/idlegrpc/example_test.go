package idlegrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/idlewheel/idlewheel/adapters/idlegrpc"
	"github.com/idlewheel/idlewheel/idle"
)

// A server that leaves: the health service says so first, then clients are asked to go, and then
// the server is shut down.
func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	l, err := idlegrpc.Wrap(ln, idlegrpc.Timeouts{})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(l.Credentials(nil))) // nil for no TLS
	healthy := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, healthy)
	go server.Serve(l)

	client, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	check := func() {
		r, err := grpc_health_v1.NewHealthClient(client).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(r.GetStatus(), status.Code(err))
	}
	check()

	healthy.Shutdown()
	go idlegrpc.LameDuck(context.Background(), 50*time.Millisecond, l) // 10 s in earnest
	check()
	drain := idle.Drain{Duration: 100 * time.Millisecond, ForceAfter: 10 * time.Second}
	fmt.Println(idlegrpc.Shutdown(context.Background(), server, drain, l))
	fmt.Println(l.Stats().Live, "connections are left")
	// Output:
	// SERVING OK
	// NOT_SERVING OK
	// <nil>
	// 0 connections are left
}
