package idlenet

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/netutil"

	"github.com/idlewheel/idlewheel/idle"
)

// A pipeListener accepts net.Pipes, in virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed int
	fails  func() error // if not nil, what Accept fails with; nil for success
}

func newPipeListener() *pipeListener { return &pipeListener{conns: make(chan net.Conn, 8)} }

func (l *pipeListener) Addr() net.Addr { return nil }

func (l *pipeListener) Accept() (net.Conn, error) {
	if l.fails != nil {
		if err := l.fails(); err != nil {
			return nil, err
		}
	}
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *pipeListener) Close() error {
	if l.closed++; l.closed > 1 {
		return net.ErrClosed
	}
	close(l.conns)
	return nil
}

func (l *pipeListener) dial() net.Conn {
	server, client := net.Pipe()
	l.conns <- server
	return client
}

// accept has ln accept a connection.
func accept(t *testing.T, inner *pipeListener, ln net.Listener) *Conn {
	t.Helper()
	inner.dial()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*Conn)
}

// TestClosedListenerEndsWithItsLastConn also shows, by the end of the bubble, that no
// goroutine is left then.
func TestClosedListenerEndsWithItsLastConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipeListener()
		ln, err := Wrap(inner, idle.Policy{IdleTimeout: time.Second}, &Options{Idle: idle.Options{Tick: tick}})
		if err != nil {
			t.Fatal(err)
		}
		gone := accept(t, inner, ln)
		silent := accept(t, inner, ln)
		if err := ln.Close(); err != nil || inner.closed != 1 {
			t.Errorf("Close: %v; closed %d times", err, inner.closed)
		}
		if _, err := ln.Accept(); err != net.ErrClosed {
			t.Errorf("Accept: %v", err)
		}
		gone.Close()
		begun := time.Now()
		wantTimeout(t, read1(silent), idle.ReasonIdle)
		onTime(t, time.Now(), begun, time.Second)
		synctest.Wait()
		if st := ln.Stats(); st.Tracked != 2 || st.Live != 0 || st.TimedOut[idle.ReasonIdle] != 1 {
			t.Errorf("%+v", st)
		}
		if _, err := ln.Tracker().Close(); err != idle.ErrClosed {
			t.Errorf("Close of the tracker: %v", err)
		}
		if err := ln.Close(); err != net.ErrClosed {
			t.Errorf("Close again: %v", err)
		}
	})
}

// TestAcceptWhileTheListenerCloses has a connection accepted by the inner listener when
// the tracker has ended.
func TestAcceptWhileTheListenerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipeListener()
		ln, err := Wrap(inner, idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		client := inner.dial()
		ln.Close()
		if c, err := ln.Accept(); c != nil || !errors.Is(err, net.ErrClosed) || !errors.Is(err, idle.ErrClosed) {
			t.Errorf("Accept returns %v, %v", c, err)
		}
		if err := read1(client); err != io.EOF {
			t.Errorf("the peer got %v, want EOF", err)
		}
	})
}

// TestListenersShareATracker gives each a policy, and one the tracker's own.
func TestListenersShareATracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{Name: "own", IdleTimeout: time.Second})
		for name, p := range map[string]idle.Policy{"own": {}, "other": {Name: "other", IdleTimeout: time.Hour}} {
			inner := newPipeListener()
			ln, err := Wrap(inner, p, &Options{Tracker: tracker})
			if err != nil || ln.Tracker() != tracker {
				t.Fatal(ln, err)
			}
			server := accept(t, inner, ln)
			ln.Close()
			begun := time.Now()
			err = read1(server)
			wantTimeout(t, err, idle.ReasonIdle)
			onTime(t, time.Now(), begun, max(p.IdleTimeout, time.Second))
			if phase := server.Timeout().Phase; phase != name {
				t.Errorf("timed out in %q, want %q", phase, name)
			}
		}
		if _, err := tracker.Phase(idle.Policy{}); err != nil {
			t.Error(err)
		}
		if st := tracker.Stats(); st.Tracked != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// hiding is a listener that doesn't show which one it uses.
type hiding struct{ inner net.Listener }

func (h hiding) Accept() (net.Conn, error) { return h.inner.Accept() }
func (h hiding) Close() error              { return h.inner.Close() }
func (h hiding) Addr() net.Addr            { return h.inner.Addr() }

// TestListenerWrappedTwiceUnseenFails has another listener in between.
func TestListenerWrappedTwiceUnseenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
		inner := newPipeListener()
		ln := share(t, hiding{share(t, inner, tracker)}, tracker)
		client := inner.dial()
		if c, err := ln.Accept(); c != nil || err != ErrWrapped {
			t.Errorf("Accept returns %v, %v", c, err)
		}
		if err := read1(client); err != io.EOF {
			t.Errorf("the peer got %v, want EOF", err)
		}
		if st := tracker.Stats(); st.Live != 0 || st.Tracked != st.Closed {
			t.Errorf("%+v", st)
		}
	})
}

// TestDrain tells an idle client and ends it, and waits for one that is being served.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
		opts := &Options{OnDrain: func(c *Conn) { c.Write([]byte("bye")) }}
		idler, client := pipe(t, tracker, opts)
		go readAll(idler)
		busy, served := pipe(t, tracker, opts)
		drain, err := tracker.Drain(idle.Drain{})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(client); string(b) != "bye" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := io.ReadFull(served, make([]byte, 3)); err != nil || drain.Left() != 1 {
			t.Errorf("%v, %d left", err, drain.Left())
		}
		go readAll(busy) // from now on it isn't served
		if b, err := io.ReadAll(served); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		<-drain.Done()
		if st := tracker.Stats(); st.Drained != 2 || st.Live != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestAcceptGoesOn when it has closed a newcomer for which there is no room, and when descriptors run out: the most idle
// connections make room then.
func TestAcceptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipeListener()
		ln, err := Wrap(inner, idle.Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		inner.fails = func() error { return syscall.EMFILE }
		if _, err := ln.Accept(); err != syscall.EMFILE {
			t.Errorf("without a Capacity it fails with %v", err)
		}
		inner.fails = nil
		if err := ln.Tracker().SetCapacity(idle.Capacity{MaxConns: 1, MinIdle: time.Minute}); err != nil {
			t.Fatal(err)
		}
		first := accept(t, inner, ln)
		refused := inner.dial()
		go func() {
			if err := read1(refused); err != io.EOF {
				t.Errorf("who has no room gets %v", err)
			}
			first.Close()
			inner.dial()
		}()
		second, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go readAll(second)
		time.Sleep(2 * time.Minute)
		inner.fails = func() error {
			if ln.Stats().Evicted == 0 {
				return syscall.EMFILE
			}
			return nil
		}
		accept(t, inner, ln).Close()
		if st := ln.Stats(); st.Refused != 1 || st.Evicted != 1 {
			t.Errorf("%+v", st)
		}
		inner.fails = nil
		ln.Close()
		if _, err := ln.Accept(); err != net.ErrClosed {
			t.Errorf("after Close it fails with %v", err)
		}
	})
}

func TestWrapRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := idle.Policy{IdleTimeout: time.Minute}
		pinging := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}}
		shared, pings := newTracker(t, minute), newTracker(t, pinging)
		inner := newPipeListener()
		closed, err := idle.New(minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		for _, c := range []struct {
			want string
			ln   net.Listener
			p    idle.Policy
			opts *Options
		}{
			{"idlenet: the listener to wrap is nil", nil, minute, nil},
			{"contains a *idlenet.Listener, which has timeouts already", share(t, inner, shared), minute, nil},
			{"contains a *idlenet.Listener, which has timeouts already", netutil.LimitListener(share(t, inner, shared), 1), minute, nil},
			{"idlenet: the listener is or contains one of crypto/tls", tls.NewListener(inner, nil), minute, nil},
			{"idlenet: the listener is or contains one of crypto/tls", netutil.LimitListener(tls.NewListener(inner, nil), 1), minute, nil},
			{"idle: the policy sets no limit", inner, idle.Policy{}, nil},
			{"idle: the tracker is closed", inner, minute, &Options{Tracker: closed}},
			{"IdleTimeout is -1ns", inner, idle.Policy{IdleTimeout: -1}, nil},
			{"IdleTimeout is -1ns", inner, idle.Policy{IdleTimeout: -1}, &Options{Tracker: shared}},
			{"Options.Tick is 1ns", inner, minute, &Options{Idle: idle.Options{Tick: 1}}},
			{"(every 1m0s), but there is no Ping to call", inner, pinging, nil},
			{"(every 1m0s), but there is no Ping to call", inner, pinging, &Options{Tracker: shared}},
			{"(every 1m0s), but there is no Ping to call", inner, minute, &Options{Tracker: pings}},
			{"idlenet: Options.Idle is {Tick:1s ", inner, minute, &Options{Tracker: shared, Idle: idle.Options{Tick: time.Second}}},
		} {
			if ln, err := Wrap(c.ln, c.p, c.opts); ln != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want an error with %q", ln, err, c.want)
			}
		}
		ln, err := Wrap(inner, minute, nil) // it is as it was
		if err != nil || inner.closed > 0 {
			t.Fatalf("%v; closed %d times", err, inner.closed)
		}
		if _, err := ln.Phase(pinging); err == nil || !strings.Contains(err.Error(), "there is no Ping to call") {
			t.Errorf("a phase that pings: %v", err)
		}
		server := accept(t, inner, ln)
		server.Close()
		ln.Close()
	})
}

// wrapper wraps a connection as many do.
type wrapper struct{ net.Conn }

func (w wrapper) NetConn() net.Conn { return w.Conn }

func TestUnwrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
		c, bare := pipe(t, tracker, nil)
		embedded, _ := pipe(t, tracker, nil)
		own := struct{ *Conn }{embedded}
		for name, test := range map[string]struct {
			nc   net.Conn
			want *Conn
		}{
			"itself":                  {c, c},
			"embedded":                {own, own.Conn},
			"in TLS":                  {tls.Server(c, nil), c},
			"in TLS, embedded":        {tls.Server(own, nil), own.Conn},
			"in wrappers":             {wrapper{tls.Client(wrapper{c}, nil)}, c},
			"none":                    {bare, nil},
			"none in TLS":             {tls.Server(bare, nil), nil},
			"none in a wrapper":       {wrapper{nil}, nil},
			"nil":                     {nil, nil},
			"in what does not tell":   {struct{ net.Conn }{c}, nil},
			"in TLS in another's TLS": {tls.Server(tls.Server(c, nil), nil), c},
		} {
			if got := Unwrap(test.nc); got != test.want {
				t.Errorf("%s: got %p, want %p", name, got, test.want)
			}
		}
	})
}

// A proxied is a connection behind the PROXY protocol: RemoteAddr waits for the header, or for the end.
type proxied struct {
	net.Conn
	header, closed chan struct{} // closed when it has come, and at the end of the test
}

func (p *proxied) RemoteAddr() net.Addr {
	select {
	case <-p.header:
		return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1"))
	case <-p.closed:
		return p.Conn.RemoteAddr()
	}
}

// TestAddressOfSilentClient has clients that send no header for the PROXY protocol. Nobody
// waits for them: not those that are accepted after them, nor those whose limits pass during
// a visit, nor a Close. An address that becomes known later is the label of an end.
func TestAddressOfSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		inner := newPipeListener()
		ln, err := Wrap(inner, idle.Policy{IdleTimeout: limit}, &Options{Idle: idle.Options{Tick: tick}})
		if err != nil {
			t.Fatal(err)
		}
		ln.Tracker().RecentEnds() // records them from here on
		begun := time.Now()
		var conns []*Conn
		var all []*proxied
		for range 3 {
			a, _ := net.Pipe()
			at := &proxied{a, make(chan struct{}), make(chan struct{})}
			inner.conns <- at
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conns, all = append(conns, c.(*Conn)), append(all, at)
		}
		if err := ln.Tracker().Visit(t.Context(), func(i idle.Info) { i.Label() }); err != nil {
			t.Error(err)
		}
		conns[0].Close()
		close(all[1].header)
		synctest.Wait()
		conns[1].Close()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("somebody waits for the address: %v", took)
		}
		wantTimeout(t, read1(conns[2]), idle.ReasonIdle)
		onTime(t, time.Now(), begun, limit)
		labels := map[string]int{}
		for _, end := range ln.Tracker().RecentEnds() {
			labels[end.Label]++
		}
		if labels["192.0.2.1:1"] != 1 || len(labels) != 2 {
			t.Errorf("the ends have the labels %v", labels)
		}
		ln.Close()
		for _, at := range all {
			close(at.closed)
		}
	})
}
