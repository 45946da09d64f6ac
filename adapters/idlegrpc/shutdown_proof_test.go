//go:build proof

package idlegrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// dial returns a client of the server whose address is returned.
func dial(t *testing.T, address func() string) *grpc.ClientConn {
	t.Helper()
	client, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address())
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// echoOnce makes a call with one message.
func echoOnce(client *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := client.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test/echo")
	if err != nil {
		return err
	}
	if err := s.SendMsg(wrapperspb.Bytes([]byte("hi"))); err != nil && err != io.EOF { // with EOF, RecvMsg has the reason
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	m := new(wrapperspb.BytesValue)
	if err := s.RecvMsg(m); err != nil {
		return err
	}
	if err := s.RecvMsg(m); err != io.EOF {
		return err
	}
	return nil
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestRollingRestart: no call fails while one server takes the place of another.
func TestRollingRestart(t *testing.T) {
	type generation struct {
		l      *Listener
		server *grpc.Server
		served chan error
	}
	var current atomic.Pointer[generation]
	next := func() *generation {
		l, server, served := serve(t, Timeouts{})
		return &generation{l, server, served}
	}
	current.Store(next())
	var stop atomic.Bool
	var calls atomic.Int64
	var load sync.WaitGroup
	defer load.Wait()
	defer stop.Store(true)
	const clients = 8
	for range clients {
		client := dial(t, func() string { return current.Load().l.Addr().String() })
		load.Go(func() {
			for !stop.Load() {
				if err := echoOnce(client); err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 3 {
		before := calls.Load()
		// The kernel resets connections that are not accepted yet when their listener is closed.
		eventually(t, "all clients are connected, and there are calls", func() bool {
			return current.Load().l.Stats().Tracked >= clients && calls.Load() > before+100
		})
		old := current.Swap(next())
		if i > 0 {
			if err := LameDuck(t.Context(), 200*time.Millisecond, old.l); err != nil {
				t.Error(err)
			}
		}
		if err := Shutdown(t.Context(), old.server, idle.Drain{Duration: 100 * time.Millisecond}, old.l); err != nil {
			t.Error(err)
		}
		if err := <-old.served; err != nil {
			t.Errorf("Serve returns %v", err)
		}
		if n := old.l.Stats().Live; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	}
}

// TestLameDuck: a connection that is used gets a GOAWAY. The client connects again, and the call
// that has begun goes on.
func TestLameDuck(t *testing.T) {
	l, _, _ := serve(t, Timeouts{})
	client := dial(t, func() string { return l.Addr().String() })
	begun := call(t, client, "/test/begins")
	if _, err := begun.Header(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- LameDuck(ctx, time.Hour, l) }()
	eventually(t, "it says that it leaves", l.IsDraining)
	eventually(t, "the client connects again", func() bool {
		if err := echoOnce(client); err != nil {
			t.Fatal(err)
		}
		return l.Stats().Tracked > 1
	})
	m := wrapperspb.Bytes([]byte("still there"))
	if err := begun.SendMsg(m); err != nil {
		t.Error(err)
	}
	if err := begun.RecvMsg(m); err != nil || string(m.Value) != "still there" {
		t.Errorf("%q, %v", m.Value, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestShutdownAfterMaxConnectionAge: grpc-go has sent GOAWAYs because of MaxConnectionAge. The GOAWAY of
// a Shutdown doesn't accept more streams than they do. Netty and nghttp2 drop the connection if one does.
func TestShutdownAfterMaxConnectionAge(t *testing.T) {
	l, server, _ := serve(t, Timeouts{}, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: limit}))
	f := dialFramed(t, l)
	f.open(t, 1, "/test/begins")
	down := make(chan error, 1)
	var last []uint32
	f.await(func(fr http2.Frame) bool {
		switch fr := fr.(type) {
		case *http2.PingFrame:
			if !fr.IsAck() {
				f.WritePing(true, fr.Data)
			}
		case *http2.GoAwayFrame:
			if last = append(last, fr.LastStreamID); len(last) == 2 { // both of grpc-go's
				go func() { down <- Shutdown(t.Context(), server, idle.Drain{}, l) }()
			}
		}
		return len(last) == 3
	})
	if want := []uint32{1<<31 - 1, 1, 1}; !slices.Equal(last, want) {
		t.Fatalf("the GOAWAYs have the last streams %d, want %d", last, want)
	}
	f.nc.Close()
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// TestShutdownForces: a call that doesn't end is ended by ForceAfter.
func TestShutdownForces(t *testing.T) {
	l, server, served := serve(t, Timeouts{})
	client := dial(t, func() string { return l.Addr().String() })
	s := call(t, client, "/test/begins")
	if _, err := s.Header(); err != nil {
		t.Fatal(err)
	}
	if err := Shutdown(t.Context(), server, idle.Drain{ForceAfter: limit}, l); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := s.RecvMsg(new(wrapperspb.BytesValue)); err == nil {
		t.Error("the call goes on")
	}
	if n := l.Tracker().Stats().Drained; n != 1 {
		t.Errorf("%d were drained", n)
	}
}

// TestShutdownGivesUp: the context ends the wait, and Stop the rest.
func TestShutdownGivesUp(t *testing.T) {
	l, server, served := serve(t, Timeouts{})
	client := dial(t, func() string { return l.Addr().String() })
	s := call(t, client, "/test/begins")
	if _, err := s.Header(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := Shutdown(ctx, server, idle.Drain{}, l); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	m := wrapperspb.Bytes([]byte("hi"))
	if err := s.SendMsg(m); err != nil {
		t.Error(err)
	}
	if err := s.RecvMsg(m); err != nil {
		t.Errorf("the call that was left fails: %v", err)
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestShutdownGivesUpAtOnce: Serve goes on until the last call has ended, and returns nil then, also
// if the context is done before Shutdown is called.
func TestShutdownGivesUpAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		l, server, served := serve(t, Timeouts{})
		client := dial(t, func() string { return l.Addr().String() })
		if _, err := call(t, client, "/test/begins").Header(); err != nil {
			t.Fatal(err)
		}
		if err := Shutdown(ctx, server, idle.Drain{}, l); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		select {
		case err := <-served:
			t.Errorf("Serve returns %v, though a call goes on", err)
		case <-time.After(50 * time.Millisecond):
			server.Stop()
			if err := <-served; err != nil {
				t.Errorf("Serve returns %v after Stop", err)
			}
		}
	}
}

// TestShutdownTwiceAtOnce calls Shutdown from two goroutines. One of them may be refused because the
// other one is under way. The server is shut down.
func TestShutdownTwiceAtOnce(t *testing.T) {
	l, server, served := serve(t, Timeouts{})
	eventually(t, "the server accepts", func() bool { return httpconn.IsServed(l.inner) }) // else its Serve fails after the Shutdown
	var both sync.WaitGroup
	var done atomic.Int32
	for range 2 {
		both.Go(func() {
			if err := Shutdown(t.Context(), server, idle.Drain{ForceAfter: patience}, l); err == nil {
				done.Add(1)
			}
		})
	}
	both.Wait()
	if done.Load() == 0 {
		t.Error("both have failed")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
