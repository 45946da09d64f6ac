package httpconn

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// An wrapper has no method that returns what it wraps.
type wrapper struct{ net.Conn }

// A hiding wrapper gives no access to what it wraps.
type hiding struct{ wrapper }

// A hijacked connection of fasthttp has UnsafeConn, and one of go-proxyproto has Raw.
type (
	handedOver struct{ hiding }
	proxied    struct{ hiding }
)

func (c handedOver) UnsafeConn() net.Conn { return c.Conn }
func (c proxied) Raw() net.Conn           { return c.Conn }

// TestFind finds a connection through wrappers of all kinds, and no other one.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, _ := accepted(t, distinct())
		other, foreign, _ := accepted(t, distinct())
		for _, nc := range []net.Conn{c, wrapper{c}, &wrapper{c}, tls.Server(c, nil), wrapper{wrapper{c}}, wrapper{tls.Server(wrapper{c}, nil)},
			handedOver{hiding{wrapper{c}}}, proxied{hiding{wrapper{c}}}} {
			if got := Find(l, nc); got != c {
				t.Errorf("through a %T it found %p", nc, got)
			}
			if got := Find(other, nc); got != nil {
				t.Errorf("another listener found it through a %T", nc)
			}
		}
		if c.state.Load() != waiting || c.heard {
			t.Error("being found has changed its state")
		}
		a, b := net.Pipe()
		for _, nc := range []net.Conn{foreign, wrapper{foreign}, a, wrapper{a}, wrapper{}, nil, hiding{wrapper{c}}} {
			if got := Find(l, nc); got != nil {
				t.Errorf("found %p through a %T", got, nc)
			}
		}
		a.Close()
		b.Close()
		for _, closing := range []interface{ Close() error }{c, foreign, l, other} {
			closing.Close()
		}
	})
}

// TestTrackerOutlivesTheListener, until its last connection is closed. That the
// bubble ends shows that the tracker has.
func TestTrackerOutlivesTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, _ := accepted(t, distinct())
		l.Close()
		l.Close()
		_, err := c.Read(make([]byte, 1))
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Phase != "handshake" {
			t.Errorf("%v after the listener was closed", err)
		}
		c.Close()
		c.Close()
		synctest.Wait()
		synctest.Wait()
		if !l.isOver() {
			t.Error("the trackers go on")
		}
	})
}

// TestTrackerClosedByTheUser ends the timeouts at once; connections live on, and none
// comes any more.
func TestTrackerClosedByTheUser(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		if st := l.Tracker().Stats(); st.Live != 1 {
			t.Errorf("the tracker has %d connections", st.Live)
		}
		if handed, err := l.Tracker().Close(); len(handed) != 1 || err != nil {
			t.Errorf("it hands back %v, %v", handed, err)
		}
		for range 2 {
			time.AfterFunc(time.Hour, func() { w.sends("GET /") })
			if n, err := c.Read(make([]byte, 5)); n != 5 || err != nil {
				t.Error(n, err)
			}
			c.HeaderRead()
			c.Idle()
		}
		late := newWire()
		l.ln.(wires).next <- late
		if _, err := l.Accept(); !errors.Is(err, idle.ErrClosed) || !late.closed {
			t.Errorf("%v; it is closed: %v", err, late.closed)
		}
	})
}

// TestLastConnectionIsClosedInACallback, for which the end of the tracker would
// wait.
func TestLastConnectionIsClosedInACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := distinct()
		limits.OnTimeout = func(nc net.Conn, _ *idle.TimeoutError) bool { nc.Close(); return false }
		l, c, _ := accepted(t, limits)
		l.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestAcceptAfterTheEnd: a connection that comes when all is over is closed.
func TestAcceptAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, _ := accepted(t, distinct())
		c.Close()
		l.Close()
		synctest.Wait()
		late := newWire()
		l.ln.(wires).next <- late
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if !late.closed {
			t.Error("it is open still")
		}
	})
}

// wrapped is a listener whose connections are idlenet's already.
type wrapped struct {
	net.Listener
	tracker *idle.Tracker
}

func (w wrapped) Accept() (net.Conn, error) { return idlenet.WrapConn(newWire(), w.tracker, nil) }
func (wrapped) Close() error                { return nil }

// TestAcceptRefuses what is wrapped already, and TLS that a listener did not show. It counts nothing.
func TestAcceptRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		bare := wires{next: make(chan *wire, 1)}
		w := newWire()
		bare.next <- w
		for want, ln := range map[string]net.Listener{
			idlenet.ErrWrapped.Error():   wrapped{tracker: tracker},
			"tls.NewListener(l, config)": holding{tls.NewListener(bare, &tls.Config{})},
		} {
			l, err := NewListener("httpconn", ln, httplimits.Timeouts{}, NoHTTP2)
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.Accept()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
			if _, passing := err.(interface{ Temporary() bool }); passing {
				t.Errorf("a server would accept again after %v", err)
			}
			l.Close()
			synctest.Wait()
			if !l.isOver() || l.Stats().Tracked != 0 {
				t.Error("the trackers go on")
			}
		}
		if !w.closed {
			t.Error("the connection is open still")
		}
	})
}

// TestTrickleBetweenRequests has a client that keeps sending bytes between two requests. None of
// them belongs to a request.
func TestTrickleBetweenRequests(t *testing.T) {
	for name, trickle := range map[string]struct {
		secure bool
		sent   string
	}{
		"a handshake record of 16 kB": {true, "\x16\x03\x03\x40\x00" + strings.Repeat("\x00", 1<<14)},
		"alerts":                      {true, strings.Repeat("\x15\x03\x03\x00\x02??", 1000)},
		"blank lines":                 {false, strings.Repeat("\r\n", 1000)},
	} {
		limits := distinct()
		inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
			if trickle.secure {
				c.extra.Store(&extra{carriesTLS: true})
			}
			c.HeaderRead()
			c.Idle()
			begun, err := time.Now(), error(nil)
			ended := make(chan struct{})
			go func() {
				for i := range trickle.sent {
					select {
					case <-ended:
						return
					case <-time.After(limits.KeepAliveTimeout / 10):
						w.sends(trickle.sent[i : i+1])
					}
				}
			}()
			for err == nil && time.Since(begun) < time.Hour {
				_, err = c.Read(make([]byte, 100))
			}
			close(ended)
			if took, most := time.Since(begun), limits.KeepAliveTimeout+limits.HeaderTimeout+time.Second; err == nil || took > most {
				t.Errorf("%s: open for %v, at most %v are right (%v)", name, took, most, err)
			}
		})
	}
}
