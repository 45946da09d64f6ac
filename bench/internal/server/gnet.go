package server

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
)

// booter is told by gnet when it listens.
type booter struct {
	gnet.EventHandler
	engine gnet.Engine
	booted chan struct{}
}

func (b *booter) OnBoot(e gnet.Engine) gnet.Action {
	b.engine = e
	action := b.EventHandler.OnBoot(e)
	close(b.booted)
	return action
}

func newGnet(c Config) (*Server, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{Address: address}
	h := c.Engine
	if h == nil {
		h = &gnetEcho{}
	}
	if c.Variant == Ours {
		if s.Gnet, err = idlegnet.Wrap(h, c.Policy, c.Gnet); err != nil {
			return nil, err
		}
		h, s.Stats = s.Gnet, s.Gnet.Stats
	}
	b := &booter{EventHandler: h, booted: make(chan struct{})}
	s.boot = b.booted
	s.serve = func() error { // no log of clients that have reset their connections
		return gnet.Run(b, "tcp://"+address, append([]gnet.Option{gnet.WithLogger(zap.NewNop().Sugar())}, c.GnetOptions...)...)
	}
	s.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return b.engine.Stop(ctx)
	}
	return s, nil
}

type gnetEcho struct{ gnet.BuiltinEventEngine }

func (*gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	c.Write(b)
	return gnet.None
}
