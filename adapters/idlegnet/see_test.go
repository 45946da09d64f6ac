package idlegnet

import (
	"testing"
)

func TestIdleOfAClosedConn(t *testing.T) {
	var none *Conn
	closed := (*Conn)(&conn{rare: &rare{inbound: -1}})
	if none.Idle() != 0 || none.Age() != 0 || closed.Idle() != 0 || closed.Age() != 0 {
		t.Error("a closed connection has an age")
	}
}
