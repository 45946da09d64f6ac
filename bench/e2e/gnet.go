package main

import (
	"net"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// gnetServer is gnet's echo server. It has no timeouts of its own.
func gnetServer() server {
	return server{
		run:      map[string]func(func(string)) error{"bare": gnetBare, us: gnetOurs},
		exchange: echoExchange(),
	}
}

func gnetBare(ready func(string)) error {
	echo, err := newGnetEcho(ready)
	if err != nil {
		return err
	}
	return gnet.Run(echo, "tcp://"+echo.address)
}

// gnetOurs has all timeouts on.
func gnetOurs(ready func(string)) error {
	echo, err := newGnetEcho(ready)
	if err != nil {
		return err
	}
	h, err := idlegnet.Wrap(echo, idle.Policy{
		IdleTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, MaxAge: 60 * timeout,
		Heartbeat:    idle.Heartbeat{Interval: timeout, Timeout: timeout},
		MinReadRate:  idle.Rate{BytesPerSecond: 1, Grace: timeout},
		MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: timeout},
	}, &idlegnet.Options{Ping: func(gnet.Conn) []byte { return []byte("ping") }})
	if err != nil {
		return err
	}
	return gnet.Run(h, "tcp://"+echo.address)
}

// gnetEcho is told by gnet when it listens, but not where.
type gnetEcho struct {
	gnet.BuiltinEventEngine
	address string
	ready   func(address string)
}

func (e *gnetEcho) OnBoot(gnet.Engine) gnet.Action {
	e.ready(e.address)
	return gnet.None
}

func (e *gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	c.Write(b)
	return gnet.None
}

// newGnetEcho returns an echo handler that is to listen on a free port.
func newGnetEcho(ready func(string)) (*gnetEcho, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	return &gnetEcho{address: ln.Addr().String(), ready: ready}, nil
}
