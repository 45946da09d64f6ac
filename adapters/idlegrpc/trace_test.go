//go:build idletrace && proof

package idlegrpc

import (
	"context"
	"crypto/tls"
	"flag"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/idle"
)

var traced = flag.Int("traced", 100_000, "how many steps TestTraces checks")

// TestTraces is TestTracesOfServers of idle/internal/traces for grpc-go:
//
//	go -C adapters/idlegrpc test -tags idletrace -run Traces -v -timeout 1h -args -traced 1000000
func TestTraces(t *testing.T) {
	idle.TraceAll(t, *traced, 1, func() {
		t.Run("", func(t *testing.T) { useServers(t) }) // its end stops the servers
	})
}

// useServers runs a server with TLS and one without, with clients. Only the traces are checked, not whether calls succeed.
func useServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for _, secure := range []bool{false, true} {
		l, _ := start(t, secure, Timeouts{
			HandshakeTimeout: limit, HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit,
			StreamTimeout: 2 * limit, StreamTotal: 3 * limit, BodyRate: idle.Rate{BytesPerSecond: 1000, Grace: limit},
		})
		creds := insecure.NewCredentials()
		if secure {
			creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
		}
		for _, method := range []string{"/test/echoes", "/test/begins", "/test/floods"} {
			for _, pause := range []time.Duration{0, limit / 20, 2 * limit} {
				clients.Go(func() { keepCalling(ctx, l.Addr().String(), creds, method, pause) })
			}
		}
	}
	clients.Wait()
}

// keepCalling makes some calls on each of several connections, one after the other.
func keepCalling(ctx context.Context, at string, creds credentials.TransportCredentials, method string, pause time.Duration) {
	for ctx.Err() == nil {
		client, err := grpc.NewClient(at, grpc.WithTransportCredentials(creds))
		if err != nil {
			panic(err)
		}
		for n := range 20 {
			if callOnce(ctx, client, method, n, pause) != nil {
				break
			}
		}
		client.Close()
		time.Sleep(5 * time.Millisecond) // it may have been refused
	}
}

// callOnce makes a call, and sends n messages with a pause before each.
func callOnce(ctx context.Context, client *grpc.ClientConn, method string, n int, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	s, err := client.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	m := wrapperspb.Bytes(make([]byte, 1000*n))
	for range n {
		time.Sleep(pause)
		if err := s.SendMsg(m); err != nil {
			return err
		}
		if err := s.RecvMsg(m); err != nil {
			return err
		}
	}
	return s.CloseSend()
}
