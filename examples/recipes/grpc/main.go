// Command grpc serves gRPC in two ways: by grpc-go's own transport, with idlegrpc, and by
// net/http, with idlehttp.
//
//	go -C examples/recipes run ./grpc
//
// A stream from the client may be silent only after the server has sent its header. Before
// that, the server resets a stream on which nothing arrives for 5 s (BodyRate). So an
// interceptor sends the header when such a call begins.
//
// A connection whose streams are all silent ends after StreamTimeout, which is 5 minutes,
// unless its client or the server pings (google.golang.org/grpc/keepalive).
package main

import (
	"io"
	"log"
	"net"
	"net/http"

	"google.golang.org/grpc"
	svc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/idlewheel/idlewheel/adapters/idlegrpc"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

func main() {
	own, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	std, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("gRPC on %v by grpc-go, and on %v by net/http, both without TLS", own.Addr(), std.Addr())
	go func() { log.Fatal(serveHTTP(std, idlehttp.Timeouts{})) }()
	log.Fatal(serve(own, idlegrpc.Timeouts{}))
}

// serve serves by grpc-go's own transport.
func serve(ln net.Listener, t idlegrpc.Timeouts) error {
	l, err := idlegrpc.Wrap(ln, t)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(l.Credentials(nil)), grpc.StreamInterceptor(sendHeader))
	svc.RegisterTestServiceServer(server, sizes{})
	return server.Serve(l)
}

// serveHTTP serves by net/http, beside other handlers if there are any.
func serveHTTP(ln net.Listener, t idlehttp.Timeouts) error {
	server := grpc.NewServer(grpc.StreamInterceptor(sendHeader))
	svc.RegisterTestServiceServer(server, sizes{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return idlehttp.Serve(&http.Server{Handler: server, Protocols: protocols}, ln, t)
}

// sendHeader sends the header of a response before the first message of the client. A handler
// that sets header fields has to send them itself.
func sendHeader(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.IsClientStream {
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
	}
	return handler(service, stream)
}

// sizes is a service that adds up the sizes of the messages in a stream.
type sizes struct {
	svc.UnimplementedTestServiceServer
}

func (sizes) StreamingInputCall(stream grpc.ClientStreamingServer[svc.StreamingInputCallRequest, svc.StreamingInputCallResponse]) error {
	var sum int
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&svc.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		} else if err != nil {
			return err
		}
		sum += len(m.Payload.GetBody())
	}
}
