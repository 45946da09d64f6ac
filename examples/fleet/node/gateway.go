package node

import (
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
	"github.com/idlewheel/idlewheel/idle"
)

// gateway speaks with clients. What it knows of one that has said hello is the context of its
// connection, a *session.
type gateway struct {
	gnet.BuiltinEventEngine
	timeouts *idlegnet.Handler
	n        *Node
	online   *idle.Phase
	turns    atomic.Uint64 // clients that were told to move
}

type session struct {
	client string
	number uint64
}

func newGateway(n *Node) (g *gateway, err error) {
	g = &gateway{n: n}
	g.timeouts, err = idlegnet.Wrap(g, DefaultLimits().handshake(), &idlegnet.Options{
		OnTimeout: sayBye,
		OnDrain:   g.sayMove,
		Idle:      idle.Options{OnEnds: n.presence.ended, Label: labelOf},
	})
	return g, err
}

// OnBoot joins the fleet. The tracker exists from here on.
func (g *gateway) OnBoot(gnet.Engine) gnet.Action {
	var err error
	if g.online, err = g.timeouts.Phase(DefaultLimits().online()); err == nil { // exempt, so a full node refuses newcomers
		err = g.timeouts.Tracker().SetCapacity(idle.Capacity{MaxConns: g.n.config.Most, Exempt: []*idle.Phase{g.online}})
	}
	if err == nil {
		err = g.n.join()
	}
	if err != nil {
		g.n.stop(err)
		return gnet.Shutdown
	}
	return gnet.None
}

// labelOf names a connection by its client and session, so that the feed of ends says whose
// they were.
func labelOf(owner any) string {
	c := owner.(*idlegnet.Conn)
	if s, ok := c.Gnet().Context().(*session); ok {
		return label(s.client, s.number)
	}
	return c.RemoteAddr().String()
}

// sayBye tells a client why it is being closed.
func sayBye(c gnet.Conn, err *idle.TimeoutError) (keep bool) {
	c.Write(wire.Frame{Kind: wire.Bye, Body: []byte(err.Error())}.Append(nil))
	return false
}

// sayMove tells a client where to connect instead. The nodes take turns, so each gets the
// same share of the rate at which this one is drained.
func (g *gateway) sayMove(c gnet.Conn) {
	address, others := "", g.n.roster.others(g.n.name)
	if g.n.spreads.Load() {
		others = g.n.roster.fewer()
	}
	if len(others) > 0 {
		address = others[g.turns.Add(1)%uint64(len(others))]
	}
	c.Write(wire.Frame{Kind: wire.Move, Body: []byte(address)}.Append(nil))
}

func (g *gateway) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		head, err := c.Peek(wire.HeadSize)
		if err != nil {
			return gnet.None
		}
		n, err := wire.SizeOf(head)
		if err != nil {
			return gnet.Close
		}
		if c.InboundBuffered() < wire.HeadSize+n {
			return gnet.None
		}
		c.Discard(wire.HeadSize)
		b, err := c.Next(n)
		if err != nil || !g.handle(c, wire.Frame{Kind: b[0], Body: b[1:]}) {
			return gnet.Close
		}
	}
}

// handle handles a frame, and reports whether it was one to be expected.
func (g *gateway) handle(c gnet.Conn, f wire.Frame) bool {
	s, known := c.Context().(*session)
	switch {
	case f.Kind == wire.Hello && !known:
		return g.admit(c, f.Body)
	case f.Kind == wire.Beat && known:
		return true // any byte is an activity
	case (f.Kind == wire.Message || f.Kind == wire.Ack) && known:
		l, ok := wire.ParseLetter(f.Body)
		if ok {
			g.n.post(f.Kind, s.client, l)
		}
		return ok
	}
	return false
}

// admit ends the handshake. A node that is being drained sends newcomers on.
func (g *gateway) admit(c gnet.Conn, hello []byte) bool {
	name, number, ok := wire.ParseHello(hello)
	if !ok {
		return false
	}
	if g.n.draining.Load() {
		g.sayMove(c)
		return false
	}
	conn := g.timeouts.Conn(c)
	if conn == nil || !g.n.presence.arrive(name, number, conn) {
		return false
	}
	c.SetContext(&session{name, number})
	conn.Enter(g.online)
	c.Write(wire.Frame{Kind: wire.Welcome, Body: []byte(g.n.name)}.Append(nil))
	return true
}

// post sends a letter on its way to where its receiver is. If no directory knows, nothing
// happens: the sender repeats it. A letter that is too long with the name of its sender is
// dropped, too. An event loop never waits here.
func (n *Node) post(kind byte, from string, l wire.Letter) {
	frame := wire.Frame{Kind: kind, Body: wire.Letter{ID: l.ID, Name: from, Text: l.Text}.Append(nil)}.Append(nil)
	if len(frame) > wire.HeadSize+wire.MaxFrame {
		n.dropped.Add(1)
		return
	}
	forward := func(p directory.Place, ok bool) {
		switch {
		case !ok:
			n.dropped.Add(1)
		case p.Node == n.name:
			n.deliver(l.Name, frame)
		default:
			n.send(n.nc.at(subjectTo+p.Node), append(wire.AppendName(nil, l.Name), frame...))
		}
	}
	if d := n.directories[directory.Partition(l.Name, len(n.presence.feeds))]; d != nil {
		forward(d.Find(l.Name))
	} else {
		n.answers.find(n.ctx, n.nc, l.Name, forward)
	}
}

// deliver writes a frame to a client of this node.
func (n *Node) deliver(to string, frame []byte) {
	conn := n.presence.find(to)
	if conn == nil {
		n.dropped.Add(1) // it has just left
		return
	}
	if err := conn.Gnet().AsyncWrite(frame, nil); err != nil {
		n.dropped.Add(1)
	}
}
