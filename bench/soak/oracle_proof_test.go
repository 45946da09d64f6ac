//go:build proof

package main

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// TestAvertedTimeout has a server tell of a timeout that it then averts, and cut
// the slow reader later for its rate: the first word is no end.
func TestAvertedTimeout(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	subject := &target{Server: &server.Server{Address: ln.Addr().String()}, ledger: newLedger()}
	c, err := subject.dial(terms{time.Minute, new(stalls)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.hangUp()
	subject.ledger.timedOut(c.LocalAddr(), &idle.TimeoutError{Reason: idle.ReasonReadTotal})
	time.AfterFunc(2*writeGrace, func() {
		subject.ledger.timedOut(c.LocalAddr(), &idle.TimeoutError{Reason: idle.ReasonMinWriteRate})
	})
	if o := c.sip(span{time.Now(), time.Now()}, tooSlow); o.verdict != closed || o.reason != idle.ReasonMinWriteRate {
		t.Errorf("%+v", o)
	}
}
