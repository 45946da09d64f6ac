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
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestBadClients: connections end after the limits that the doc comment names.
func TestBadClients(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // which the server acknowledges
	for what, test := range map[string]struct {
		client func(net.Conn) // returns when the connection has ended
		want   time.Duration
	}{
		"sends nothing": {func(conn net.Conn) { io.Copy(io.Discard, conn) }, 10 * time.Second},
		"sends a preface that trickles": {func(conn net.Conn) {
			go io.Copy(io.Discard, conn)
			for b := preface; len(b) > 0; b = b[1:] { // 14 s
				if _, err := io.WriteString(conn, b[:1]); err != nil {
					return
				}
				time.Sleep(600 * time.Millisecond)
			}
		}, 10 * time.Second},
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

// withClients runs a test with a client of grpc-go that sends no pings, so that only the server's
// keep a connection alive, and with one that pings as often as it may.
func withClients(t *testing.T, test func(t *testing.T, conn *grpc.ClientConn)) {
	for what, pings := range map[string]grpc.DialOption{
		"without pings": grpc.EmptyDialOption{},
		"with pings":    grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, PermitWithoutStream: true}),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pipes := idletest.NewListener()
				defer pipes.Close()
				go serve(pipes)
				conn, err := grpc.NewClient("passthrough:///pipe",
					grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }),
					pings)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				test(t, conn)
			})
		})
	}
}

// TestConnections: one without calls is asked to leave. A stream on which nobody sends anything lives as
// long as its connection may. The server's deadline ends a unary call whose message doesn't come.
func TestConnections(t *testing.T) {
	within := func(t *testing.T, what string, begun time.Time, least, most time.Duration) {
		t.Helper()
		if lasted := time.Since(begun).Round(time.Second); lasted < least || lasted > most {
			t.Errorf("%s ended after %v", what, lasted)
		}
	}
	withClients(t, func(t *testing.T, conn *grpc.ClientConn) {
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), new(grpc_health_v1.HealthCheckRequest)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		conn.WaitForStateChange(t.Context(), connectivity.Ready)
		within(t, "the connection", begun, 5*time.Minute, 5*time.Minute)

		begun = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, grpc_health_v1.Health_Watch_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new(grpc_health_v1.HealthCheckResponse)); err == nil {
			t.Error("the server has sent a message")
		}
		within(t, "the stream", begun, 28*time.Minute, 34*time.Minute) // MaxConnectionAge varies by a tenth, and the grace follows

		begun = time.Now()
		call, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, grpc_health_v1.Health_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		if err = call.RecvMsg(new(grpc_health_v1.HealthCheckResponse)); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the call ended with %v", err)
		}
		within(t, "the call", begun, 30*time.Second, 30*time.Second)
	})
}
