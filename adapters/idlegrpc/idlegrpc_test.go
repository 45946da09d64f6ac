package idlegrpc

import (
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoing is a service whose streams echo what they get. /test/begins sends its header first,
// and /test/floods sends without end.
func echoing(_ any, stream grpc.ServerStream) error {
	switch method, _ := grpc.MethodFromServerStream(stream); method {
	case "/test/begins":
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
	case "/test/floods":
		for {
			if err := stream.SendMsg(wrapperspb.Bytes(make([]byte, 100_000))); err != nil {
				return err
			}
		}
	}
	for {
		m := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}
