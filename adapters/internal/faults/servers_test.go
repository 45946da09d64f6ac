//go:build proof && linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A server is one of package idlenet, or idlegnet with one loop.
type server struct {
	address string
	ended   chan error // of connections that have timed out
	stop    func()
}

// tell tells of the end of a connection if that has timed out.
func (s *server) tell(err error) {
	if timeout := new(idle.TimeoutError); errors.As(err, &timeout) {
		s.ended <- err
	}
}

// newNetServer serves with serve, which is given each connection in a goroutine.
func newNetServer(bare net.Listener, p idle.Policy, opts *idlenet.Options, serve func(*idlenet.Conn) error) (*server, error) {
	ln, err := idlenet.Wrap(bare, p, opts)
	if err != nil {
		return nil, err
	}
	s := &server{address: ln.Addr().String(), ended: make(chan error, 1000)}
	s.stop = func() {
		live, _ := ln.Tracker().Close()
		ln.Close()
		for _, c := range live {
			c.(net.Conn).Close()
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) || errors.Is(err, idle.ErrClosed) {
				return
			}
			if err != nil { // no descriptors; net/http waits in the same way
				time.Sleep(5 * time.Millisecond)
				continue
			}
			go func() {
				defer c.Close()
				s.tell(serve(c.(*idlenet.Conn)))
			}()
		}
	}()
	return s, nil
}

func listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return ln
}

// echo sends back what comes, and takes it for a beat.
func echo(c *idlenet.Conn) error {
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return err
		}
		c.Beat()
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
	}
}

// fill writes until the connection has timed out.
func fill(c *idlenet.Conn) error {
	b := make([]byte, 64<<10)
	for {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}

type engine struct {
	gnet.BuiltinEventEngine
	*server
	boot    chan gnet.Engine
	traffic func(c gnet.Conn, b []byte)
}

func newGnetServer(p idle.Policy, opts *idlegnet.Options, traffic func(gnet.Conn, []byte)) (*server, error) {
	e := &engine{server: &server{ended: make(chan error, 1000)}, boot: make(chan gnet.Engine, 1), traffic: traffic}
	h, err := idlegnet.Wrap(e, p, opts)
	if err != nil {
		return nil, err
	}
	run := make(chan error, 1)
	go func() { run <- runGnet(h, &e.address, gnet.WithNumEventLoop(1), gnet.WithLogger(noLog{})) }()
	select {
	case err := <-run:
		return nil, errors.Join(errors.New("gnet did not start"), err)
	case booted := <-e.boot:
		e.stop = func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			booted.Stop(ctx)
			<-run
		}
		return e.server, nil
	}
}

// runGnet runs gnet at an address that it sets before OnBoot. gnet doesn't tell which port it has chosen, and may not be
// able to bind one that was free: another process may be first, or the port may have connections in TIME-WAIT, as gnet
// doesn't set SO_REUSEADDR. Systems give listeners of other tests, and outgoing connections, higher ports.
func runGnet(h gnet.EventHandler, address *string, opts ...gnet.Option) (err error) {
	for range 100 {
		*address = fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		if err = gnet.Run(h, "tcp://"+*address, opts...); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}

func (e *engine) OnBoot(g gnet.Engine) gnet.Action { e.boot <- g; return gnet.None }

func (e *engine) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	e.traffic(c, b)
	return gnet.None
}

func (e *engine) OnClose(_ gnet.Conn, err error) gnet.Action { e.tell(err); return gnet.None }

func gnetEcho(c gnet.Conn, b []byte) { c.Write(b) }

// serveHTTP serves with package idlehttp, and all limits short.
func serveHTTP(ln net.Listener) {
	hello := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }
	go idlehttp.Serve(&http.Server{Handler: http.HandlerFunc(hello)}, ln, idlehttp.Timeouts{
		HandshakeTimeout: limit, HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit,
	})
}

// noLog is a log of nothing.
type noLog struct{}

func (noLog) Debugf(string, ...any) {}
func (noLog) Infof(string, ...any)  {}
func (noLog) Warnf(string, ...any)  {}
func (noLog) Errorf(string, ...any) {}
func (noLog) Fatalf(string, ...any) {}
