package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func (s *Server) makeNet(c Config, ln net.Listener) error {
	if c.Variant == Ours {
		wrapped, err := idlenet.Wrap(ln, c.Policy, nil)
		if err != nil {
			return err
		}
		ln, s.Stats = wrapped, wrapped.Tracker().Stats
	}
	s.stop = ln.Close
	s.serve = func() error {
		for {
			nc, err := ln.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return nil
			case err != nil:
				time.Sleep(time.Millisecond) // there may be no descriptor now
			case c.Variant == Own:
				go echo(deadlineConn{nc, c.Own})
			default:
				go echo(nc)
			}
		}
	}
	return nil
}

// A deadlineConn sets a deadline before each read, which is package net's way.
type deadlineConn struct {
	net.Conn
	timeout time.Duration
}

func (c deadlineConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func echo(c net.Conn) {
	defer c.Close()
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err == nil {
			_, err = c.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// quiet is a log of clients that have reset their connections.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func (s *Server) makeHTTP(c Config, ln net.Listener) error {
	h := c.Web
	if h == nil {
		h = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, Greeting) })}
	}
	h.ErrorLog = quiet()
	if hasTLS(c.Kind) {
		certificate, err := Certificate()
		if err != nil {
			return err
		}
		h.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	}
	switch c.Variant {
	case Own:
		h.ReadTimeout, h.ReadHeaderTimeout, h.WriteTimeout, h.IdleTimeout = c.Own, c.Own, c.Own, c.Own
	case Ours:
		l, err := idlehttp.Wrap(h, ln, c.Timeouts)
		if err != nil {
			return err
		}
		ln, s.Stats = l, func() idle.Stats { return l.Stats().Stats }
	}
	s.stop = h.Close
	s.serve = func() error {
		serve := h.Serve
		if hasTLS(c.Kind) {
			serve = func(ln net.Listener) error { return h.ServeTLS(ln, "", "") }
		}
		if err := serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return nil
}

func (s *Server) makeFasthttp(c Config, ln net.Listener) error {
	h := c.Fast
	if h == nil {
		h = &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString(Greeting) }}
	}
	h.Logger = quiet()
	switch c.Variant {
	case Own:
		h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = c.Own, c.Own, c.Own
	case Ours:
		l, err := idlefasthttp.Wrap(h, ln, c.Timeouts)
		if err != nil {
			return err
		}
		ln, s.Stats = l, func() idle.Stats { return l.Stats().Stats }
	}
	s.serve, s.stop = func() error { return h.Serve(ln) }, h.Shutdown
	return nil
}

// A gnetEcho is an echo server. It tells when it listens.
type gnetEcho struct {
	gnet.BuiltinEventEngine
	engine gnet.Engine
	booted chan struct{}
}

func (e *gnetEcho) OnBoot(engine gnet.Engine) gnet.Action {
	e.engine = engine
	close(e.booted)
	return gnet.None
}

func (*gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	c.Write(b)
	return gnet.None
}

func (s *Server) makeGnet(c Config) error {
	echo := &gnetEcho{booted: s.boot}
	var handler gnet.EventHandler = echo
	if c.Variant == Ours {
		h, err := idlegnet.Wrap(echo, c.Policy, &idlegnet.Options{
			Ping: func(c gnet.Conn) error { _, err := c.Write([]byte("ping")); return err },
		})
		if err != nil {
			return err
		}
		handler, s.Stats = h, h.Stats
	}
	// gnet may not be able to bind an address that was free: another process may be first, or the
	// port may have connections in TIME-WAIT, because gnet doesn't set SO_REUSEADDR.
	s.serve = func() (err error) {
		for range 100 {
			if s.Address, err = FreeAddress(); err != nil {
				return err
			}
			if err = gnet.Run(handler, "tcp://"+s.Address, gnet.WithLogger(zap.NewNop().Sugar())); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
		}
		return err
	}
	s.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return echo.engine.Stop(ctx)
	}
	return nil
}

// Certificate makes a certificate that nobody is to trust.
func Certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
