package attack

import (
	"net"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
)

// What clients of the servers of net and gnet send. Nothing is answered.
const (
	beat  = 'b' // is a heartbeat, each byte one
	noise = 'n' // means nothing
	quit  = 'q' // asks the server to close
)

// takeBeats looks at each byte, and reports each beat if there are timeouts.
func takeBeats(c net.Conn) {
	defer c.Close()
	tracked, _ := c.(*idlenet.Conn)
	b, beats := make([]byte, 4096), 0
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		for _, message := range b[:n] {
			switch {
			case message == quit:
				return
			case message != beat:
			case tracked != nil:
				tracked.Beat()
			default:
				beats++
			}
		}
	}
}

// gnetBeats does with gnet what takeBeats does.
type gnetBeats struct {
	gnet.BuiltinEventEngine
	timeouts *idlegnet.Handler // nil if there are none
	beats    int
}

func (g *gnetBeats) OnTraffic(c gnet.Conn) gnet.Action {
	var tracked *idlegnet.Conn
	if g.timeouts != nil {
		tracked = g.timeouts.Conn(c)
	}
	b, _ := c.Next(-1)
	for _, message := range b {
		switch {
		case message == quit:
			return gnet.Close
		case message != beat:
		case tracked != nil:
			tracked.Beat()
		default:
			g.beats++
		}
	}
	return gnet.None
}
