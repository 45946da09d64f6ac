package idlegrpc

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/adapters/internal/simserver"
	"github.com/idlewheel/idlewheel/idle"
)

var (
	seeds = flag.Int("seeds", 20, "how many simulated worlds")
	first = flag.Uint64("seed", 1, "the first of them")
)

var simLimits = Timeouts{
	HandshakeTimeout: 4 * time.Second,
	BodyTimeout:      5 * time.Second,
	WriteRate:        idle.Rate{BytesPerSecond: 100_000, Grace: 6 * time.Second},
	WriteTimeout:     time.Minute,
	KeepAliveTimeout: 2 * time.Second,
}

// TestSimulation runs grpc-go, server and clients, over a simulated network; see package simserver.
func TestSimulation(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 5)
	}
	kinds := []func(*simserver.Client){simHonest, simHonest, simHonest, simIdle, simSilent, simSlow, simMute}
	for i := range n {
		simserver.Run(t, *first+uint64(i), simLimits, startSim, kinds)
		if t.Failed() {
			return
		}
	}
}

func startSim(w *simserver.World, ln net.Listener, limits Timeouts) (simserver.Server, error) {
	l, err := Wrap(ln, limits)
	if err != nil {
		return simserver.Server{}, err
	}
	server := grpc.NewServer(grpc.Creds(l.Credentials(nil)), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return serveSim(w, s) }))
	return simserver.Server{
		Serve:    func() error { return server.Serve(l) },
		Shutdown: func(ctx context.Context, d idle.Drain) error { return Shutdown(ctx, server, d, l) },
		Stats:    l.Stats,
	}, nil
}

// serveSim echoes messages. The first one has the id of the call, and how many messages of 10,000
// bytes to send first.
func serveSim(w *simserver.World, s grpc.ServerStream) error {
	m := new(wrapperspb.BytesValue)
	for first := true; ; first = false {
		if err := s.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if first {
			var id string
			var n int
			fmt.Sscan(string(m.Value), &id, &n)
			w.Begin(id)
			time.Sleep(time.Duration(w.IntN(200)) * time.Millisecond)
			for range n {
				if err := s.SendMsg(wrapperspb.Bytes(make([]byte, 10_000))); err != nil {
					return err
				}
			}
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// A watched connection says when the client closes it.
type watched struct {
	net.Conn
	closed chan time.Time // has room for one
}

func (w *watched) Close() error {
	select {
	case w.closed <- time.Now():
	default:
	}
	return w.Conn.Close()
}

// dialSim returns a client of grpc-go. It dials when it makes a call.
func dialSim(c *simserver.Client) *grpc.ClientConn { return dialWatched(c, make(chan time.Time, 1)) }

func dialWatched(c *simserver.Client, closed chan time.Time) *grpc.ClientConn {
	client, err := grpc.NewClient("passthrough:///sim", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<20),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if !c.Dial() {
				return nil, net.ErrClosed
			}
			return &watched{c.Conn, closed}, nil
		}))
	if err != nil {
		panic(err)
	}
	return client
}

// open begins a call. It returns nil if the server has left.
func open(ctx context.Context, client *grpc.ClientConn) grpc.ClientStream {
	s, err := client.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test/echo")
	if err != nil {
		return nil
	}
	return s
}

// exchange makes a call of some messages. It reports whether the server is still there.
func exchange(c *simserver.Client, client *grpc.ClientConn) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := open(ctx, client)
	if s == nil {
		return false
	}
	id, n, more := c.NextID(), c.Rand.IntN(3)*c.Rand.IntN(20), c.Rand.IntN(4)
	err := s.SendMsg(wrapperspb.Bytes(fmt.Appendln(nil, id, n)))
	got := 0
	m := new(wrapperspb.BytesValue)
	for want := n + 1; err == nil && got < want; got++ {
		err = s.RecvMsg(m)
	}
	for i := 0; err == nil && i < more; i++ {
		c.Pause(4000) // it is the client's turn
		if err = s.SendMsg(wrapperspb.Bytes(make([]byte, c.Rand.IntN(5000)))); err == nil {
			err = s.RecvMsg(m)
		}
	}
	if err == nil {
		s.CloseSend()
		if err = s.RecvMsg(m); err == io.EOF {
			return true
		}
	}
	if err == io.EOF { // of SendMsg; RecvMsg has the error
		err = s.RecvMsg(m)
	}
	if c.Executed(id) {
		c.Errorf("call %s was executed, and got %d messages and %v (the limit: %v)", id, got, err, c.End().Err)
	}
	return status.Code(err) != codes.Unavailable
}

// simHonest makes calls. Often the next one comes at the moment at which KeepAliveTimeout passes.
func simHonest(c *simserver.Client) {
	client := dialSim(c)
	defer client.Close()
	for range 1 + c.Rand.IntN(8) {
		if !exchange(c, client) {
			return
		}
		pause := time.Duration(c.Rand.IntN(1500)) * time.Millisecond
		if c.Rand.IntN(2) == 0 {
			pause = simLimits.KeepAliveTimeout + time.Duration(c.Rand.IntN(40)-4)*simserver.Tick/8
		}
		time.Sleep(pause)
	}
}

// simIdle makes a call and then none. The limit sends a GOAWAY, whereupon the client closes the
// connection.
func simIdle(c *simserver.Client) {
	closed := make(chan time.Time, 1)
	client := dialWatched(c, closed)
	defer client.Close()
	if !exchange(c, client) {
		return
	}
	since, limit := time.Now(), simLimits.KeepAliveTimeout
	select {
	case at := <-closed:
		if took := at.Sub(since); c.Drained().IsZero() && took < limit {
			c.Errorf("an idle connection was closed after %v, want %v", took, limit)
		}
	case <-time.After(limit + simserver.Late):
		if c.Drained().IsZero() {
			c.Errorf("an idle connection is open after %v", limit)
		}
	}
}

// simMute connects and sends nothing.
func simMute(c *simserver.Client) {
	if c.Dial() {
		c.WantEnd(time.Now(), "HandshakeTimeout", simLimits.HandshakeTimeout, simserver.LateAddr)
	}
}

// simSilent begins a call, and sends no message.
func simSilent(c *simserver.Client) {
	client := dialSim(c)
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := open(ctx, client)
	if s == nil {
		return
	}
	since := time.Now()
	ended := make(chan error, 1)
	go func() {
		err := s.RecvMsg(new(wrapperspb.BytesValue))
		took, limit := time.Since(since), simLimits.BodyTimeout
		if c.Drained().IsZero() && (status.Code(err) != codes.Canceled || took < limit || took > limit+simserver.Late) {
			c.Errorf("a silent call ended after %v with %v, want %v", took, err, limit)
		}
		ended <- err
	}()
	exchange(c, client)
	select {
	case <-ended:
	case <-time.After(simLimits.BodyTimeout + simserver.Late):
		c.Errorf("a silent call is open after %v", time.Since(since))
	}
}

// simSlow makes a call, and doesn't read what it gets until the limit has passed.
func simSlow(c *simserver.Client) {
	client := dialSim(c)
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := open(ctx, client)
	if s == nil {
		return
	}
	s.SendMsg(wrapperspb.Bytes(fmt.Appendln(nil, c.NextID(), 100)))
	const window, delay = 1 << 16, 200 * time.Millisecond
	time.Sleep(delay + simLimits.WriteRate.Grace + window*time.Second/100_000 + simserver.Late)
	for got := 0; ; got++ {
		switch err := s.RecvMsg(new(wrapperspb.BytesValue)); {
		case err == nil && got > 20:
			c.Errorf("a call goes on after its limit, with message %d", got)
			return
		case err != nil && c.Drained().IsZero() && status.Code(err) != codes.Canceled:
			c.Errorf("a call ended with %v", err)
			return
		case err != nil:
			return
		}
	}
}
