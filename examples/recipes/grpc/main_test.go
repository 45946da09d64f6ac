package main

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	svc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/idlewheel/idlewheel/adapters/idlegrpc"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestSilentClient: a client may pause for an hour, as far as its stream is concerned.
func TestSilentClient(t *testing.T) {
	serves := map[string]func(net.Listener) error{
		"grpc-go": func(ln net.Listener) error { return serve(ln, idlegrpc.Timeouts{StreamTimeout: idlegrpc.Off}) },
		"net/http": func(ln net.Listener) error {
			return serveHTTP(ln, idlehttp.Timeouts{StreamTimeout: idlehttp.Off})
		},
	}
	for name, serve := range serves {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pipes := idletest.NewListener()
				defer pipes.Close()
				go serve(pipes)
				client, err := grpc.NewClient("passthrough:///pipe",
					grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }))
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				stream, err := svc.NewTestServiceClient(client).StreamingInputCall(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					time.Sleep(time.Hour)
					if err := stream.Send(&svc.StreamingInputCallRequest{Payload: &svc.Payload{Body: make([]byte, 1000)}}); err != nil {
						t.Fatal(err)
					}
				}
				res, err := stream.CloseAndRecv()
				if err != nil || res.AggregatedPayloadSize != 3000 {
					t.Errorf("%v, %v", res, err)
				}
			})
		})
	}
}
