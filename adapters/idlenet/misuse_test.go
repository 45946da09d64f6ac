package idlenet

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// limited embeds a connection, as netutil.LimitListener's connections do.
type limited struct{ net.Conn }

// TestWrapConnRefuses what it can't wrap, by name, and leaves it as it was. A struct that embeds a Conn or a TLS
// connection is refused too.
func TestWrapConnRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
		pinging := newTracker(t, idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}})
		closed, _ := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
		closed.Close()
		c, _ := pipe(t, tracker, nil)
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		for _, test := range []struct {
			nc      net.Conn
			tracker *idle.Tracker
			opts    *Options
			want    string
		}{
			{nil, tracker, nil, "idlenet: the connection to wrap is nil"},
			{a, nil, nil, "idlenet: the tracker is nil"},
			{a, pinging, nil, "set Ping"},
			{a, closed, nil, idle.ErrClosed.Error()},
			{a, tracker, &Options{Tracker: tracker}, "idlenet: Options.Tracker is set"},
			{a, tracker, &Options{Idle: idle.Options{Tick: time.Second}}, "idlenet: Options.Idle is {Tick:1s S"},
			{c, tracker, nil, ErrWrapped.Error()},
			{struct{ *Conn }{c}, tracker, nil, ErrWrapped.Error()},
			{&limited{c}, tracker, nil, ErrWrapped.Error()},
			{limited{limited{c}}, tracker, nil, ErrWrapped.Error()},
			{tls.Client(a, nil), tracker, nil, "idlenet: the connection is or contains one of crypto/tls"},
			{&limited{tls.Client(a, nil)}, tracker, nil, "idlenet: the connection is or contains one of crypto/tls"},
		} {
			if nc, err := WrapConn(test.nc, test.tracker, test.opts); nc != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v and %v; want an error with %q", nc, err, test.want)
			}
		}
		if err := new(netconn.Conn).Init(c, tracker, nil, netconn.NewSetup(idle.Hooks{}, nil)); err != ErrWrapped {
			t.Errorf("Init of an adapter: %v", err)
		}
		if _, err := wrapConn(a, closed, nil); !errors.Is(err, idle.ErrClosed) {
			t.Error(err)
		}
		go b.Write([]byte("x"))
		if err := read1(a); err != nil {
			t.Error(err)
		}
	})
}

// TestEnterPanics, and says why.
func TestEnterPanics(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	pings, err := tracker.Phase(idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	server, client := pipe(t, tracker, nil)
	for want, enter := range map[string]func(){
		"idlenet: Enter(nil)":  func() { server.Enter(nil) },
		"set Ping":             func() { server.Enter(pings) },
		"idlenet: a nil *Conn": func() { Unwrap(client).Enter(tracker.Initial()) }, // it has no timeouts
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("it panics with %q, want %q", text, want)
				}
			}()
			enter()
		}()
	}
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
			accept(t, inner, l).Close()
			l.Close()
		}
	})
}
