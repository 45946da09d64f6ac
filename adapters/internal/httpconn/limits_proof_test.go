//go:build proof

package httpconn

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
)

// TestNoAllocation: a request costs none, with a body or without, whoever tells
// of its header.
func TestNoAllocation(t *testing.T) {
	for _, handler := range []time.Duration{0, time.Minute} {
		c, buf := stillConn(t, httplimits.Timeouts{HandlerTimeout: handler}), make([]byte, 100)
		for name, request := range map[string]func(){
			"without a body": func() { c.Read(buf); c.Write(buf); c.Idle() },
			"with a body":    func() { c.Read(buf); c.HeaderRead(); c.Read(buf); c.Write(buf); c.Idle() },
			"in pieces":      func() { c.Read(buf); c.Read(buf); c.Write(buf); c.Idle() },
			"by a deadline": func() {
				c.Read(buf)
				c.SetReadDeadline(time.Now().Add(HeaderReadSignal))
				c.Write(buf)
				c.Idle()
			},
		} {
			if n := testing.AllocsPerRun(100, request); n != 0 {
				t.Errorf("%s, handler limit %v: %v allocations", name, handler, n)
			}
		}
	}
}
