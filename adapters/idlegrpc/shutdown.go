package idlegrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// IsDraining reports whether all clients are asked to leave: from [LameDuck] or [Shutdown] on,
// and during a Drain of the tracker. A readiness check should report it; with the health service
// of grpc-go, call its Shutdown when LameDuck begins. Any goroutine may call IsDraining.
func (l *Listener) IsDraining() bool { return l.inner.IsDraining() }

// LameDuck asks clients to leave while the server goes on. It returns when the time d has passed,
// or with the error of ctx. As soon as it's called, a connection whose client opens a call gets a
// GOAWAY that still accepts calls. Clients then connect again, to another server if the balancer
// has noticed. Connections that aren't used stay open. Call it before [Shutdown], with more time
// than load balancers need to notice.
func LameDuck(ctx context.Context, d time.Duration, listeners ...*Listener) error {
	return httpconn.LameDuck(ctx, "idlegrpc", d, listeners)
}

// Shutdown shuts down the server of the listeners in good order, as d says. It accepts no more
// connections, ends those without calls, longest idle first, and asks the clients of the others
// to leave, each with two GOAWAYs. A connection ends when its calls have ended. d.ForceAfter ends
// what is left; set it, because a call may last for hours. Then Shutdown calls GracefulStop and
// waits for it. If ctx is done first, Shutdown returns its error while GracefulStop goes on with
// the connections that are left; call Stop to end them.
//
// Shutdown takes the place of a drain that somebody has begun by hand. If somebody begins one during
// Shutdown, that one goes on instead, and Shutdown waits for it. It fails if a value in d is invalid,
// or if another Shutdown is under way. Pass all listeners of a server together.
func Shutdown(ctx context.Context, server *grpc.Server, d idle.Drain, listeners ...*Listener) error {
	if server == nil {
		return errors.New("idlegrpc: Shutdown: the server is nil")
	}
	for _, l := range listeners {
		if l != nil {
			httpconn.SetServer(l.inner, server, func(ctx context.Context) error { return stop(ctx, server, l) })
		}
	}
	return httpconn.Shutdown(ctx, "idlegrpc", d, listeners)
}

// stop is GracefulStop until ctx is done. It returns when that has begun, because Serve returns an
// error if Accept fails before. l is a listener of the server.
func stop(ctx context.Context, server *grpc.Server, l *Listener) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		httpconn.AwaitClosed(l.inner, stopped)
		return ctx.Err()
	}
}
