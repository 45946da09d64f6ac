package server

import (
	"context"
	"errors"
	"syscall"
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
	s := &Server{}
	h := c.Engine
	if h == nil {
		h = &gnetEcho{}
	}
	if c.Variant == Ours {
		var err error
		if s.Gnet, err = idlegnet.Wrap(h, c.Policy, c.Gnet); err != nil {
			return nil, err
		}
		h, s.Stats = s.Gnet, s.Gnet.Stats
	}
	b := &booter{EventHandler: h, booted: make(chan struct{})}
	s.boot = b.booted
	opts := append([]gnet.Option{gnet.WithLogger(zap.NewNop().Sugar())}, c.GnetOptions...) // no log of clients that have reset their connections
	// gnet may not be able to bind an address that was free: another process may be first, or the
	// port may have connections in TIME-WAIT, as gnet doesn't set SO_REUSEADDR.
	s.serve = func() (err error) {
		for range 100 {
			if s.Address, err = FreeAddress(); err != nil {
				return err
			}
			if err = gnet.Run(b, "tcp://"+s.Address, opts...); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
		}
		return err
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
