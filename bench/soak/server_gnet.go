package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// A gnetEcho is an echo server as one writes it with gnet.
type gnetEcho struct {
	gnet.BuiltinEventEngine
	wheel         *idlegnet.Handler
	pings, stream *idle.Phase
	ledger        *ledger
	booted        chan gnet.Engine
}

// sendBuffer is small, so that gnet itself holds most of a stream back.
const sendBuffer = 64 << 10

func startGnet(s *server) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	e := &gnetEcho{ledger: s.ledger, booted: make(chan gnet.Engine, 1)}
	e.wheel, err = idlegnet.Wrap(e, idle.Policy{IdleTimeout: limit}, &idlegnet.Options{
		Ping: func(gnet.Conn) []byte { return []byte{ping} },
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(e.wheel, "tcp://"+address, gnet.WithMulticore(true), gnet.WithSocketSendBuffer(sendBuffer),
			gnet.WithLogger(noLog{}))
	}()
	var engine gnet.Engine
	select {
	case engine = <-e.booted:
	case err := <-ended:
		return errors.Join(errors.New("gnet did not start"), err)
	}
	s.address, s.lives, s.stats = address, gnetLives(), e.wheel.Stats
	s.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(engine.Stop(ctx), <-ended)
	}
	return nil
}

// freeAddress returns one on which nobody listens: gnet does not tell which it
// has chosen.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

func (e *gnetEcho) OnBoot(engine gnet.Engine) gnet.Action {
	var err error
	if e.pings, err = e.wheel.Phase(pingPolicy()); err != nil {
		return gnet.Shutdown
	}
	if e.stream, err = e.wheel.Phase(streamPolicy()); err != nil {
		return gnet.Shutdown
	}
	e.booted <- engine
	return gnet.None
}

func (e *gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	if len(b) == 0 {
		return gnet.None
	}
	mode, known := c.Context().(byte)
	if !known {
		mode = b[0]
		c.SetContext(mode)
		switch mode {
		case modeStream:
			e.wheel.Conn(c).Enter(e.stream)
			c.Write(stream)
		case modePing:
			e.wheel.Conn(c).Enter(e.pings)
		}
	}
	if mode == modeEcho {
		c.Write(b)
	}
	return gnet.None
}

func (e *gnetEcho) OnClose(c gnet.Conn, err error) gnet.Action {
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		e.ledger.timedOut(c.RemoteAddr(), timeout.Reason)
	}
	return gnet.None
}

// noLog is a log of nothing: peers that reset their connections are our daily
// business.
type noLog struct{}

func (noLog) Debugf(string, ...any) {}
func (noLog) Infof(string, ...any)  {}
func (noLog) Warnf(string, ...any)  {}
func (noLog) Errorf(string, ...any) {}
func (noLog) Fatalf(string, ...any) {}
