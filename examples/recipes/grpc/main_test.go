package main

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestClients: connections end after the limits that the doc comment names.
func TestClients(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // which the server acknowledges
	for what, test := range map[string]struct {
		client func(net.Conn) // returns when the connection has ended
		want   time.Duration
	}{
		"sends nothing": {func(conn net.Conn) { io.Copy(io.Discard, conn) }, 10 * time.Second},
		"doesn't answer pings": {func(conn net.Conn) {
			go io.WriteString(conn, preface+settings)
			io.Copy(io.Discard, conn)
		}, 80 * time.Second},
		"doesn't read": {func(conn net.Conn) {
			conn.Read(make([]byte, 1<<15)) // the server's settings; until then, ConnectionTimeout applies
			for _, err := io.WriteString(conn, preface+settings); err == nil; _, err = io.WriteString(conn, settings) {
			}
		}, 20 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pipes := idletest.NewListener()
				defer pipes.Close()
				go serve(pipes)
				conn, err := pipes.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				begun := time.Now()
				test.client(conn)
				if got := time.Since(begun).Round(time.Second); got != test.want {
					t.Errorf("it ended after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestCalls: the server's deadline ends a unary call whose message doesn't come. A silent stream
// lives as long as its connection may, which varies by a tenth.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		defer pipes.Close()
		go serve(pipes)
		conn, err := grpc.NewClient("passthrough:///pipe",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begun := time.Now()
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), new(grpc_health_v1.HealthCheckRequest))
		if err != nil {
			t.Fatal(err)
		}
		stalled, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, grpc_health_v1.Health_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		err = stalled.RecvMsg(new(grpc_health_v1.HealthCheckResponse))
		if waited := time.Since(begun).Round(time.Second); status.Code(err) != codes.DeadlineExceeded || waited != 30*time.Second {
			t.Errorf("the call ended after %v with %v", waited, err)
		}
		if _, err := stream.Recv(); err != nil { // the only status
			t.Error(err)
		}
		if _, err := stream.Recv(); err == nil {
			t.Error("there is a second status")
		}
		if lived := time.Since(begun); lived < 28*time.Minute || lived > 34*time.Minute+time.Second {
			t.Errorf("the stream ended after %v", lived)
		}
	})
}
