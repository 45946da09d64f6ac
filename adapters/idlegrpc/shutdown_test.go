package idlegrpc

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/idlewheel/idlewheel/idle"
)

// serve starts a server of echoing. served is closed when Serve has returned.
func serve(t *testing.T, limits Timeouts, opts ...grpc.ServerOption) (l *Listener, server *grpc.Server, served chan error) {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if l, err = Wrap(bare, limits); err != nil {
		t.Fatal(err)
	}
	server = grpc.NewServer(append(opts, grpc.Creds(l.Credentials(nil)), grpc.UnknownServiceHandler(echoing))...)
	served = make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l, server, served
}

func TestShutdownRefuses(t *testing.T) {
	l, server, _ := serve(t, Timeouts{})
	for want, err := range map[string]error{
		"idlegrpc: Shutdown: the server is nil": Shutdown(t.Context(), nil, idle.Drain{}, l),
		"idlegrpc: Shutdown of no listener":     Shutdown(t.Context(), server, idle.Drain{}),
		"idlegrpc: Shutdown: a listener is nil": Shutdown(t.Context(), server, idle.Drain{}, nil),
		"idlegrpc: LameDuck of 0s":              LameDuck(t.Context(), 0, l),
		"idlegrpc: Shutdown: idle: Drain.":      Shutdown(t.Context(), server, idle.Drain{Duration: -1}, l),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
