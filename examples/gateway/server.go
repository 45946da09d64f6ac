package main

import (
	"encoding/binary"
	"log"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// gateway echoes what devices send. What it knows of one that has said hello is
// the context of its connection, a *device.
type gateway struct {
	gnet.BuiltinEventEngine
	timeouts *idlegnet.Handler
	engine   gnet.Engine
	file     string // with the limits; empty if there is none
	ops      string // where operators look

	mu     sync.Mutex // guards what follows
	limits limits
	phases map[device]*idle.Phase // of devices that are alike
}

type device struct {
	interval time.Duration // at which it beats; 0 for never
}

// Intervals are brought between these.
const (
	minInterval = 100 * time.Millisecond
	maxInterval = time.Minute
)

func serve(address, file, ops string, l limits) error {
	if file != "" {
		if err := l.read(file); err != nil {
			return err
		}
	}
	g := &gateway{file: file, ops: ops, limits: l, phases: map[device]*idle.Phase{}}
	var err error
	g.timeouts, err = idlegnet.Wrap(g, l.handshake(), &idlegnet.Options{OnTimeout: sayBye, OnDrain: sayMove})
	if err != nil {
		return err
	}
	return gnet.Run(g.timeouts, "tcp://"+address, gnet.WithMulticore(true))
}

// sayBye tells a device why it is being closed.
func sayBye(c gnet.Conn, err *idle.TimeoutError) (keep bool) {
	why := "you are too slow: "
	if c.Context() == nil {
		why = "you have not said hello: "
	}
	c.Write(frame{bye, []byte(why + err.Error())}.append(nil))
	return false
}

func (g *gateway) OnClose(c gnet.Conn, err error) gnet.Action {
	log.Print(c.RemoteAddr(), " is gone: ", err)
	return gnet.None
}

func (g *gateway) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		head, err := c.Peek(headSize)
		if err != nil {
			return gnet.None
		}
		n, err := sizeOf(head)
		if err != nil {
			log.Print(c.RemoteAddr(), ": ", err)
			return gnet.Close
		}
		if c.InboundBuffered() < headSize+n {
			return gnet.None
		}
		c.Discard(headSize)
		b, err := c.Next(n)
		if err != nil || !g.handle(c, frame{b[0], b[1:]}) {
			return gnet.Close
		}
	}
}

// handle handles a frame, and reports whether it was one to be expected.
func (g *gateway) handle(c gnet.Conn, f frame) bool {
	d, known := c.Context().(*device)
	switch {
	case f.kind == hello && !known && len(f.body) == 4:
		return g.admit(c, time.Duration(binary.BigEndian.Uint32(f.body))*time.Millisecond)
	case f.kind == beat && known && d.interval > 0:
		g.timeouts.Conn(c).Beat()
		return true
	case f.kind == data && known:
		c.Write(f.append(nil))
		return true
	}
	return false
}

// admit ends the handshake of a device that wants to beat at an interval.
func (g *gateway) admit(c gnet.Conn, interval time.Duration) bool {
	if interval > 0 {
		interval = min(max(interval, minInterval), maxInterval)
	}
	d := device{interval}
	phase, err := g.phase(d)
	if err != nil {
		log.Print(err)
		return false
	}
	c.SetContext(&d)
	g.timeouts.Conn(c).Enter(phase)
	c.Write(frame{welcome, binary.BigEndian.AppendUint32(nil, uint32(interval.Milliseconds()))}.append(nil))
	return true
}

// phase returns the timeouts for a device. Devices that are alike share them.
func (g *gateway) phase(d device) (*idle.Phase, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.phases[d]; ok {
		return p, nil
	}
	p, err := g.timeouts.Phase(g.limits.policy(d))
	if err == nil {
		g.phases[d] = p
	}
	return p, err
}

// handshake is the policy of a device that has not said hello. One that trickles would
// extend a ReadTimeout. It does not extend a PhaseTimeout.
func (l limits) handshake() idle.Policy {
	return idle.Policy{Name: "handshake", PhaseTimeout: time.Duration(l.Handshake)}
}

// policy is the policy of a device that has.
func (l limits) policy(d device) idle.Policy {
	p := idle.Policy{WriteTimeout: 5 * time.Second}
	if d.interval > 0 { // half an interval of grace, as MQTT has it
		p.Heartbeat = idle.Heartbeat{Interval: d.interval, Timeout: d.interval / 2, Passive: true}
	} else {
		p.IdleTimeout = time.Duration(l.Idle)
	}
	return p
}
