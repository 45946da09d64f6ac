package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

// A drain ends all devices within drainOver, at an even rate, so that the gateway to which
// they connect next is not run over. Each is told, and has drainGrace to leave by itself.
const (
	drainOver  = 5 * time.Second
	drainGrace = time.Second
	drainStop  = 10 * time.Second
)

// steer obeys signals: SIGHUP reads the file with the limits again, SIGTERM and Ctrl-C end
// the gateway in good order.
func (g *gateway) steer(file string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, os.Interrupt)
	for s := range signals {
		if s != syscall.SIGHUP {
			g.drain()
			return
		}
		if err := g.reload(file); err != nil {
			log.Print("the limits stay as they are: ", err)
		}
	}
}

// reload changes the limits of new devices, and of all that are connected.
func (g *gateway) reload(file string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.limits
	if err := l.read(file); err != nil {
		return err
	}
	t := g.timeouts.Tracker()
	if err := t.SetPolicy(l.handshake()); err != nil {
		return err
	}
	for d, p := range g.phases {
		if err := p.SetPolicy(l.policy(d)); err != nil {
			return err
		}
	}
	g.limits = l
	log.Printf("limits: %v for a handshake, %v of silence", time.Duration(l.Handshake), time.Duration(l.Idle))
	return nil
}

// drain ends all devices, and then the engine.
func (g *gateway) drain() {
	defer g.engine.Stop(context.Background())
	o, err := g.timeouts.Tracker().Drain(idle.Drain{Duration: drainOver, CloseDelay: drainGrace, ForceAfter: drainStop})
	if err != nil {
		log.Print(err)
		return
	}
	for {
		select {
		case <-o.Done():
			log.Printf("drained: %d devices were ended, %d have left by themselves", o.Progress().Ended, o.Progress().Gone)
			return
		case <-time.After(time.Second):
			p := o.Progress()
			log.Printf("draining: %d devices are left, for %v", p.Left, p.Expected.Round(time.Second))
		}
	}
}

// OnBoot begins to listen to signals and to operators. The tracker exists from here on.
func (g *gateway) OnBoot(e gnet.Engine) gnet.Action {
	g.engine = e
	if err := ops.Serve(g.ops, map[string]*idle.Tracker{"gateway": g.timeouts.Tracker()}); err != nil {
		log.Print(err)
		return gnet.Shutdown
	}
	go g.steer(g.file)
	return gnet.None
}

// sayMove tells a device to connect to another gateway.
func sayMove(c gnet.Conn) {
	c.Write(frame{bye, []byte("this gateway is going away, connect again")}.append(nil))
}
