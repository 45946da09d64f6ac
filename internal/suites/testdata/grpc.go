package hook_test

import (
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/idlewheel/idlewheel/adapters/idlegrpc"
)

// accepted maps each connection whose handshake has not begun to its listener.
var accepted sync.Map

// remembering is a listener whose connections are in accepted.
type remembering struct{ *idlegrpc.Listener }

func (l remembering) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err == nil {
		accepted.Store(nc, l.Listener)
	}
	return nc, err
}

func init() {
	if suitesWrap == "" {
		return
	}
	grpc.SuitesHook = func(ln net.Listener) net.Listener {
		l, err := idlegrpc.Wrap(ln, timeouts)
		if err != nil { // it speaks TLS
			return ln
		}
		note("listener", "idlegrpc")
		steer(l.Tracker())
		return remembering{l}
	}
	grpc.SuitesCredentials = func(nc net.Conn, creds credentials.TransportCredentials) credentials.TransportCredentials {
		l, ours := accepted.LoadAndDelete(nc)
		if !ours {
			return creds
		}
		return l.(*idlegrpc.Listener).Credentials(creds)
	}
}
