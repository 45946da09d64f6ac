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
		if c.state.Load() != awaitingHeader || c.begun > notBegunYet {
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

// TestPolicyOfAnotherName is one of a hijacked connection, and counted as that.
func TestPolicyOfAnotherName(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, _ *wire) {
		c.Hijack()
		if err := Watch("httpconn", c, idle.Policy{Name: "websocket", IdleTimeout: time.Minute}, httplimits.Callbacks{}); err != nil {
			t.Fatal(err)
		}
		var timeout *idle.TimeoutError
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) || timeout.Phase != "websocket" {
			t.Error(err)
		}
		if n := l.Stats().Phases["hijacked"]; n != 1 {
			t.Errorf("%d are counted", n)
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

// TestAcceptRefusesWhatIsWrapped, and counts nothing.
func TestAcceptRefusesWhatIsWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		l, err := NewListener("httpconn", wrapped{tracker: tracker}, httplimits.Timeouts{}, NoHTTP2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); !errors.Is(err, idlenet.ErrWrapped) {
			t.Error(err)
		}
		l.Close()
		synctest.Wait()
		if !l.isOver() {
			t.Error("the trackers go on")
		}
	})
}

// TestDeadlinesOfUsers are no signals, however far they are.
func TestDeadlinesOfUsers(t *testing.T) {
	for _, server := range []HTTP2{NoHTTP2, OverTLS} {
		for _, far := range []time.Duration{0, 200, 260, 290, 1000} {
			inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
				l.http2 = server
				var at time.Time
				if far != 0 {
					at = time.Now().AddDate(int(far), 0, 0)
				}
				c.SetReadDeadline(time.Now().Add(time.Second))
				c.SetReadDeadline(at)
				if !w.deadline.Equal(at) {
					t.Errorf("%v: the deadline is %v, want %v", server, w.deadline, at)
				}
			})
		}
	}
	// What fasthttp is told to set is one, but only there.
	for server, set := range map[HTTP2]bool{NoHTTP2: false, OverTLS: true} {
		inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
			l.http2 = server
			c.SetReadDeadline(time.Now().Add(HeaderReadSignal))
			if w.deadline.IsZero() == set {
				t.Errorf("%v: the deadline is %v", server, w.deadline)
			}
		})
	}
}

// TestBlankLines: a blank line after a body is not the beginning of a request. A client that
// goes on to send blank lines has begun a header, or it could hold the connection with them.
func TestBlankLines(t *testing.T) {
	for name, test := range map[string]struct {
		body   string   // of the request before, and what comes with it
		sent   []string // later, one Read each
		secure bool
		want   Phase
	}{
		"one":                              {"abc", []string{"\r\n"}, false, KeepAlive},
		"two":                              {"abc", []string{"\r\n", "\r\n"}, false, Header},
		"one in two parts":                 {"abc", []string{"\r", "\n"}, false, KeepAlive},
		"more than one in parts":           {"abc", []string{"\r", "\n", "\r"}, false, Header},
		"half of one, then a request":      {"abc", []string{"\r", "G"}, false, Header},
		"two ends of lines":                {"abc", []string{"\n", "\n"}, false, Header},
		"one with the body":                {"abc\r\n", nil, false, KeepAlive},
		"one with the body, and another":   {"abc\r\n", []string{"\r\n"}, false, Header},
		"one with the body, and a request": {"abc\r\n", []string{"G"}, false, Header},
		"a request with the body":          {"abc\r\nG", nil, false, Header},
		"a request that is cut in a line":  {"abcG\r", []string{"\n"}, false, Header},
		"bytes of TLS with the body":       {"abc\r\n", nil, true, Header},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
				if test.secure {
					c.extra.Store(&extra{})
				}
				reads := func(text string) {
					w.sends(text)
					if n, err := c.Read(make([]byte, 100)); n != len(text) || err != nil {
						t.Fatal(n, err)
					}
				}
				c.Idle()
				reads("P")
				c.HeaderRead()
				reads(test.body)
				c.Idle()
				if test.body != "abc" {
					c.RequestBegun()
				}
				for _, text := range test.sent {
					reads(text)
				}
				c.Read(make([]byte, 100))
				if err := c.Timeout(); err == nil || err.Phase != test.want.String() {
					t.Errorf("%v, want a timeout of the %v", err, test.want)
				}
			})
		})
	}
}

// TestBlankLineWithAWholeRequest comes in one Read, which has waited for the request.
func TestBlankLineWithAWholeRequest(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		c.Idle()
		for _, text := range []string{"a request", "a request and a blank line\r\n"} {
			w.sends(text)
			c.Read(make([]byte, 100))
			c.Idle()
		}
		c.RequestBegun()
		timesOut(t, c, KeepAlive, distinct().KeepAliveTimeout)
	})
}

// TestKeyUpdateIsNoRequest: what a client of TLS sends between two requests need not be
// the beginning of one. The first such bytes restart the wait for a request, and later ones don't.
func TestKeyUpdateIsNoRequest(t *testing.T) {
	keyUpdate := "\x17\x03\x03\x00\x16" + strings.Repeat("?", 22)
	for name, test := range map[string]struct {
		sent []string
		want Phase
	}{
		"KeyUpdate":                    {[]string{keyUpdate}, KeepAlive},
		"KeyUpdate in parts":           {[]string{keyUpdate[:3], keyUpdate[3:11], keyUpdate[11:]}, KeepAlive},
		"a part of a larger record":    {[]string{"\x17\x03\x03\x00\x20" + strings.Repeat("?", 22)}, Header},
		"alert":                        {[]string{"\x15\x03\x03\x00\x02??"}, KeepAlive},
		"two, which may be five bytes": {[]string{keyUpdate, keyUpdate}, Header},
		"the first byte of a request":  {[]string{"\x17\x03\x03\x00\x12" + strings.Repeat("?", 18)}, Header},
		"KeyUpdate, then a request":    {[]string{keyUpdate, "\x17\x03\x03\x00\x20??"}, Header},
		"KeyUpdate with a request":     {[]string{keyUpdate + "\x17\x03\x03\x00\x20??"}, Header},
	} {
		inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
			c.extra.Store(&extra{}) // it carries TLS
			c.records.overhead = overheadUnknown
			w.sends("\x17\x03\x03\x00\x20" + strings.Repeat("?", 32)) // a request
			c.Read(make([]byte, 100))
			c.HeaderRead()
			c.Idle()
			for _, b := range test.sent {
				w.sends(b)
				if n, err := c.Read(make([]byte, 100)); n != len(b) || err != nil {
					t.Fatal(n, err)
				}
			}
			c.Read(make([]byte, 100))
			if err := c.Timeout(); err == nil || err.Phase != test.want.String() {
				t.Errorf("%s: %v, want a timeout of the %v", name, err, test.want)
			}
		})
	}
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
				c.extra.Store(&extra{})
				c.records.overhead = overheadUnknown
			}
			c.RequestBegun()
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
			if took, most := time.Since(begun), 2*limits.KeepAliveTimeout+limits.HeaderTimeout; err == nil || took > most {
				t.Errorf("%s: open for %v, at most %v are right (%v)", name, took, most, err)
			}
		})
	}
}

// TestRecordAcrossRequests has a part of a record arrive together with the previous request. The
// rest of it belongs to the next request, unless it's a KeyUpdate.
func TestRecordAcrossRequests(t *testing.T) {
	for name, test := range map[string]struct {
		first, rest string
		want        Phase
	}{
		"the rest of a KeyUpdate":       {"\x17\x03\x03\x00\x16??", strings.Repeat("?", 20), KeepAlive},
		"the rest of a header's record": {"\x17\x03\x03\x00\x20??", strings.Repeat("?", 30), Header},
		"more of a header's record":     {"\x17\x03\x03\x00\x20??", "??", Header},
	} {
		inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
			c.extra.Store(&extra{})
			c.records.overhead = overheadUnknown
			c.Idle()
			w.sends(record(100) + test.first)
			c.Read(make([]byte, 200))
			c.HeaderRead()
			c.Idle()
			w.sends(test.rest)
			c.Read(make([]byte, 200))
			c.Read(make([]byte, 100))
			if err := c.Timeout(); err == nil || err.Phase != test.want.String() {
				t.Errorf("%s: %v, want a timeout of the %v", name, err, test.want)
			}
		})
	}
}
