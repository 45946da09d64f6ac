package idlenet

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

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
// waits for them: not those that are accepted after them, nor those whose limits pass while
// somebody looks at all connections, nor whoever closes one. An address that is known later is the label of an end.
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
