package httpsuite

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// handshakesAtOnce holds two connections in the handshake, which is the limit.
func handshakesAtOnce(t *testing.T, u under, most idle.Capacity) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := u.start(t, Only(time.Minute), func(r Request) {
		if r.Path() == "/slow" {
			close(begun)
			<-goOn
		}
	})
	defer close(goOn)
	if err := s.Tracker().SetCapacity(most); err != nil {
		t.Fatal(err)
	}
	dial := func(live uint64) *Client {
		t.Helper()
		c := s.DialBare()
		Eventually(t, "it is accepted", func() bool { return s.Stats().Live == live })
		return c
	}
	silent, slow := dial(1), dial(2)
	s.DialBare().WantClosed()
	if u.Secure {
		slow.Shake()
	}
	slow.Send(Get("/slow"))
	Receive(t, begun)
	third := s.Dial()
	for range 3 {
		third.Get("/")
	}
	fourth := dial(4)
	s.DialBare().WantClosed()
	for _, c := range []*Client{silent, fourth} { // they are served, too
		if u.Secure {
			c.Shake()
		}
		c.Get("/")
	}
	if st := s.Stats(); st.RefusedHandshake < 2 || st.Refused != st.RefusedHandshake {
		t.Errorf("%+v", st)
	}
}

// A proxied is a listener behind the PROXY protocol. The address of its first connection isn't
// known until first is closed.
type proxied struct {
	net.Listener
	first    chan struct{}
	accepted int
}

func (l *proxied) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if l.accepted++; err == nil && l.accepted == 1 {
		c = late{c, l.first}
	}
	return c, err
}

type late struct {
	net.Conn
	known chan struct{}
}

func (c late) RemoteAddr() net.Addr {
	<-c.known
	return c.Conn.RemoteAddr()
}
