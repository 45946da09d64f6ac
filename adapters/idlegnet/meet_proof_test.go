//go:build proof

package idlegnet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestDrainWaitsForARequest: a request that the handler has not taken from gnet's buffer yet is not cut.
func TestDrainWaitsForARequest(t *testing.T) {
	arrived, taken := make(chan gnet.Conn, 1), make(chan bool)
	h := &handler{traffic: func(c gnet.Conn) gnet.Action {
		select {
		case <-taken:
			c.Next(-1)
		default:
			arrived <- c
		}
		return gnet.None
	}}
	s := serve(t, h, idle.Policy{IdleTimeout: time.Hour}, nil, tcp())
	nc := dial(t, s.address)
	nc.Write([]byte("request"))
	c := receive(t, arrived)
	drain, err := s.Tracker().Drain(idle.Drain{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drain.Done():
		t.Error("the drain is over, though a request waits")
	case <-time.After(100 * ms):
	}
	close(taken)
	c.Wake(nil)
	receive(t, drain.Done())
}

// TestCapacityOfEachRun: Options.Capacity is in force from the first connection on, and is checked by Wrap.
func TestCapacityOfEachRun(t *testing.T) {
	if _, err := Wrap(&handler{}, idle.Policy{IdleTimeout: time.Hour}, &Options{Capacity: idle.Capacity{MaxConns: -1}}); err == nil || !strings.Contains(err.Error(), "MaxConns is -1") {
		t.Error(err)
	}
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: time.Hour}, &Options{Capacity: idle.Capacity{MaxConns: 1}}, tcp())
	dial(t, s.address)
	for s.Stats().Live == 0 {
		time.Sleep(ms)
	}
	dial(t, s.address)
	var timeout *idle.TimeoutError
	if err := receive(t, closed).err; !errors.As(err, &timeout) || timeout.Reason != idle.ReasonEvict {
		t.Errorf("OnClose gets %v", err)
	}
}

// TestSetPolicyBeforeTheFirstConnection: a policy that pings is refused if there is no Ping.
func TestSetPolicyBeforeTheFirstConnection(t *testing.T) {
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil, tcp())
	if err := s.Tracker().SetPolicy(idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}}); err == nil {
		t.Error("it is accepted")
	}
}
