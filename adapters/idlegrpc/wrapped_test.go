package idlegrpc

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// A recording connection records its read deadline.
type recording struct {
	net.Conn
	deadline time.Time
}

func (c *recording) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

// TestOfAnotherListener checks that the handshake of a connection of another listener has a deadline,
// though the credentials have looked for their own connection inside.
func TestOfAnotherListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Wrap(idletest.NewListener(), Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		c := &recording{Conn: a}
		if nc, _, err := l.Credentials(nil).ServerHandshake(c); nc != c || err != nil {
			t.Fatalf("ServerHandshake returns %v, %v", nc, err)
		}
		if left := time.Until(c.deadline); left != connectionTimeout {
			t.Errorf("the handshake may take %v", left)
		}
	})
}
