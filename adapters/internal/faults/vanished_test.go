package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A vanishing is a server whose peer will vanish, and the reason for which the
// peer has to be closed.
type vanishing struct {
	name    string
	address string
	message string // sets it going
	want    idle.Reason
	ended   <-chan error
}

// begin says hello, and waits for an answer.
func (v *vanishing) begin(c net.Conn) error {
	if _, err := io.WriteString(c, v.message); err != nil {
		return err
	}
	c.SetReadDeadline(time.Now().Add(patience))
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// check waits for the server to end the connection.
func (v *vanishing) check(within time.Duration) error {
	select {
	case err := <-v.ended:
		var timeout *idle.TimeoutError
		if errors.As(err, &timeout); timeout.Reason != v.want {
			return fmt.Errorf("closed for %v, want %v", timeout.Reason, v.want)
		}
		return nil
	case <-time.After(within):
		return fmt.Errorf("not closed within %v", within)
	}
}

func heartbeat() idle.Policy {
	return idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 4, Misses: 2}}
}

// startVanishing starts the servers.
func startVanishing() (all []vanishing, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	addNet := func(name, message string, p idle.Policy, opts *idlenet.Options, want idle.Reason, serve func(*idlenet.Conn) error) {
		s, end, e := newNetServer(p, opts, serve)
		if e != nil {
			err = e
			return
		}
		stops = append(stops, end)
		all = append(all, vanishing{name, s.address, message, want, s.ended})
	}
	addGnet := func(name, message string, p idle.Policy, want idle.Reason, traffic func(gnet.Conn, []byte)) {
		s, end, e := newGnetServer(p, &idlegnet.Options{Ping: func(c gnet.Conn) error { _, err := c.Write([]byte("ping")); return err }}, traffic)
		if e != nil {
			err = e
			return
		}
		stops = append(stops, end)
		all = append(all, vanishing{name, s.address, message, want, s.ended})
	}
	writing := idle.Policy{WriteTimeout: limit}
	addNet("idlenet write", "s", writing, nil, idle.ReasonWrite, fill)
	addNet("idlenet heartbeat", "p", heartbeat(), &idlenet.Options{Ping: func(c *idlenet.Conn) error {
		_, err := io.WriteString(c, "ping")
		return err
	}}, idle.ReasonHeartbeat, echo)
	addNet("idlenet passive heartbeat", "p", idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 2, Passive: true}}, nil, idle.ReasonHeartbeat, echo)
	addGnet("idlegnet write", "s", writing, idle.ReasonWrite, func(c gnet.Conn, _ []byte) { c.Write(make([]byte, 16<<20)) })
	addGnet("idlegnet heartbeat", "p", heartbeat(), idle.ReasonHeartbeat, gnetEcho)
	return all, stop, err
}
