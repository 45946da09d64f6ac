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
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A netServer is a server with package idlenet.
type netServer struct {
	address string
	tracker *idle.Tracker
	ended   chan error // how connections ended that have timed out
}

// newNetServer serves with serve, which is given each connection in a goroutine.
func newNetServer(p idle.Policy, opts *idlenet.Options, serve func(*idlenet.Conn) error) (*netServer, func(), error) {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ln, err := idlenet.Wrap(bare, p, opts)
	if err != nil {
		return nil, nil, err
	}
	s := &netServer{ln.Addr().String(), ln.Tracker(), make(chan error, 1000)}
	go s.accept(ln, serve)
	return s, func() {
		live, _ := s.tracker.Close()
		ln.Close()
		for _, c := range live {
			c.(net.Conn).Close()
		}
	}, nil
}

func (s *netServer) accept(ln net.Listener, serve func(*idlenet.Conn) error) {
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
			var timeout *idle.TimeoutError
			if err := serve(c.(*idlenet.Conn)); errors.As(err, &timeout) {
				s.ended <- err
			}
		}()
	}
}

// reason waits for the next connection that has timed out.
func (s *netServer) reason(t *testing.T) idle.Reason {
	t.Helper()
	var timeout *idle.TimeoutError
	errors.As(soon(t, s.ended, "timeout"), &timeout)
	return timeout.Reason
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

// A gnetServer is a server with package idlegnet, of one loop.
type gnetServer struct {
	gnet.BuiltinEventEngine
	address string
	wheel   *idlegnet.Handler
	boot    chan gnet.Engine
	ended   chan error // of connections that have timed out
	traffic func(c gnet.Conn, b []byte)
}

func newGnetServer(p idle.Policy, opts *idlegnet.Options, traffic func(gnet.Conn, []byte)) (*gnetServer, func(), error) {
	s := &gnetServer{boot: make(chan gnet.Engine, 1), ended: make(chan error, 1000), traffic: traffic}
	var err error
	if s.wheel, err = idlegnet.Wrap(s, p, opts); err != nil {
		return nil, nil, err
	}
	run := make(chan error, 1)
	go func() {
		run <- runGnet(s.wheel, &s.address, gnet.WithNumEventLoop(1), gnet.WithLogger(noLog{}))
	}()
	select {
	case err := <-run:
		return nil, nil, errors.Join(errors.New("gnet did not start"), err)
	case engine := <-s.boot:
		return s, func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			engine.Stop(ctx)
			<-run
		}, nil
	}
}

// runGnet runs gnet at an address that it sets before OnBoot. gnet may not be able to bind an
// address that was free: another process may be first, or the port may have connections in
// TIME-WAIT, as gnet doesn't set SO_REUSEADDR.
func runGnet(h gnet.EventHandler, address *string, opts ...gnet.Option) (err error) {
	for range 100 {
		if *address, err = freeAddress(); err != nil {
			return err
		}
		if err = gnet.Run(h, "tcp://"+*address, opts...); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}

// freeAddress returns an address for gnet, which doesn't tell which port it has chosen. Systems
// give listeners of other tests, and outgoing connections, higher ports.
func freeAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", err
}

func (s *gnetServer) OnBoot(e gnet.Engine) gnet.Action { s.boot <- e; return gnet.None }

func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	s.traffic(c, b)
	return gnet.None
}

func (s *gnetServer) OnClose(_ gnet.Conn, err error) gnet.Action {
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		s.ended <- err
	}
	return gnet.None
}

// reason waits for the next connection that has timed out.
func (s *gnetServer) reason(t *testing.T) idle.Reason {
	t.Helper()
	var timeout *idle.TimeoutError
	errors.As(soon(t, s.ended, "timeout"), &timeout)
	return timeout.Reason
}

func gnetEcho(c gnet.Conn, b []byte) { c.Write(b) }

// newHTTPServer serves with package idlehttp, and all limits short.
func newHTTPServer(h http.Handler) (address string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h}
	go idlehttp.Serve(s, ln, idlehttp.Timeouts{
		HandshakeTimeout: limit, HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit,
	})
	return ln.Addr().String(), func() { s.Close() }, nil
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// noLog is a log of nothing.
type noLog struct{}

func (noLog) Debugf(string, ...any) {}
func (noLog) Infof(string, ...any)  {}
func (noLog) Warnf(string, ...any)  {}
func (noLog) Errorf(string, ...any) {}
func (noLog) Fatalf(string, ...any) {}
