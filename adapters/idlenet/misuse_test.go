package idlenet

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestNilArguments checks that each is told of by name.
func TestNilArguments(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	for want, wrap := range map[string]func() (*Conn, error){
		"connection to wrap is nil": func() (*Conn, error) { return wrapConn(nil, tracker, nil) },
		"tracker is nil":            func() (*Conn, error) { return wrapConn(a, nil, nil) },
	} {
		if c, err := wrap(); c != nil || err == nil || !strings.HasPrefix(err.Error(), "idlenet: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v and %v; want an error with %q", c, err, want)
		}
	}
	server, _ := pipe(t, tracker, nil)
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "idlenet: Enter(nil)") {
			t.Errorf("Enter(nil) panics with %q", text)
		}
	}()
	server.Enter(nil)
}

// TestWhatEmbedsAConnIsWrappedOnce wraps a type of a user's.
func TestWhatEmbedsAConnIsWrappedOnce(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	a, b := net.Pipe()
	defer b.Close()
	c, err := wrapConn(a, tracker, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	own := struct{ *Conn }{c}
	if c, err := wrapConn(own, tracker, nil); c != nil || err != ErrWrapped {
		t.Errorf("got %v, %v", c, err)
	}
}

// TestWhatWrapsAConnIsRefused: a struct that embeds a Conn or a TLS connection is refused. The
// connections of netutil.LimitListener are such structs.
func TestWhatWrapsAConnIsRefused(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	c, _ := pipe(t, tracker, nil)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	type limited struct{ net.Conn }
	for _, nc := range []net.Conn{&limited{c}, limited{limited{c}}} {
		if nc, err := WrapConn(nc, tracker, nil); err != ErrWrapped {
			t.Errorf("got %v, %v", nc, err)
		}
	}
	secure := tls.Client(a, nil)
	for _, nc := range []net.Conn{secure, &limited{secure}} {
		if nc, err := WrapConn(nc, tracker, nil); err == nil || !strings.HasPrefix(err.Error(), "idlenet: the connection is or contains one of crypto/tls") {
			t.Errorf("got %v, %v", nc, err)
		}
	}
}

// TestUnwrapOfAnother: a connection without timeouts has no Conn, whose methods say so.
func TestUnwrapOfAnother(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "idlenet: a nil *Conn") {
			t.Errorf("it panics with %q", text)
		}
	}()
	Unwrap(a).Enter(newTracker(t, idle.Policy{IdleTimeout: time.Minute}).Initial())
}

// TestSetPolicyBeforeTheFirstConnection: a policy that pings is refused if there is no Ping, and not the
// next connection.
func TestSetPolicyBeforeTheFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pinging := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}}
		for name, shared := range map[string]*idle.Tracker{"own tracker": nil, "shared tracker": newTracker(t, idle.Policy{IdleTimeout: time.Hour})} {
			inner := newPipeListener()
			l, err := Wrap(inner, idle.Policy{IdleTimeout: time.Minute}, &Options{Tracker: shared})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Tracker().SetPolicy(pinging); err == nil {
				t.Errorf("%s: it is accepted", name)
			}
			server := accept(t, inner, l)
			server.Close()
			l.Close()
		}
	})
}

// TestReadsAfterTheEnd uses a connection whose reads fail in their own way once it is
// closed.
func TestReadsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Second}), nil)
		wantTimeout(t, read1(server), idle.ReasonIdle)
		time.Sleep(time.Minute)
		wantTimeout(t, read1(server), idle.ReasonIdle)
		_, err := server.Write([]byte("x"))
		wantTimeout(t, err, idle.ReasonIdle)
	})
}

// TestCloseHandsBackTheConns closes a tracker with connections that have all kinds of
// callbacks: what it hands back is what Accept and WrapConn have returned.
func TestCloseHandsBackTheConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		keep := func(*Conn, *idle.TimeoutError) bool { return false }
		end := func(*Conn, *idle.TimeoutError) {}
		want := map[any]bool{}
		for _, opts := range []*Options{nil, {OnTimeout: keep}, {OnEnd: end}, {OnTimeout: keep, OnEnd: end}} {
			c, _ := pipe(t, tracker, opts)
			want[c] = true
		}
		live, err := tracker.Close()
		if err != nil || len(live) != len(want) {
			t.Errorf("handed back %v, %v", live, err)
		}
		for _, c := range live {
			if !want[c] {
				t.Errorf("handed back a %T", c)
			}
		}
	})
}

// deadlineless is a connection that takes no deadlines, and whose reads fail in their
// own way when it is closed.
type deadlineless struct {
	net.Conn
	closed chan struct{}
}

var errOwn = errors.New("an error of its own")

func (d *deadlineless) SetDeadline(time.Time) error { return errOwn }
func (d *deadlineless) Read([]byte) (int, error)    { <-d.closed; return 0, errOwn }
func (d *deadlineless) Close() error                { close(d.closed); return d.Conn.Close() }

func TestTimeoutOfAConnWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
		a, b := net.Pipe()
		defer b.Close()
		c, err := wrapConn(&deadlineless{a, make(chan struct{})}, tracker, nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 2 { // the pending read, and a later one
			_, err = c.Read(make([]byte, 1))
			wantTimeout(t, err, idle.ReasonIdle)
		}
		if took := time.Since(start); took > time.Second+3*tick {
			t.Errorf("the reads failed after %v", took)
		}
		time.Sleep(3 * time.Second) // it is not closed a second time, which would panic
		if n := tracker.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
	})
}
