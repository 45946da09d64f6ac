//go:build proof

package faults

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// What has vanished without a FIN is closed by whatever limit is on its side:
// WriteTimeout while it is written to, and a heartbeat while it is silent. A peer
// that is pinged and answers is not.
//
// Here it hides behind a proxy that no longer forwards, so its system still
// acknowledges what the proxy's buffers take.
func TestVanishedBehindProxy(t *testing.T) {
	long(t)
	t.Parallel()
	all, stop, err := startVanishing()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for i := range all {
		t.Run(all[i].name, func(t *testing.T) {
			t.Parallel()
			v := all[i]
			begun := time.Now()
			p := startProxy(t, v.address)
			c := dial(t, p.address)
			err := v.begin(c)
			inTime(t, begun)
			if err != nil {
				t.Fatal(err)
			}
			p.vanish.Store(true)
			if err := v.check(patience); err != nil {
				t.Error(err)
			}
		})
	}
}

// A proxy forwards bytes until it vanishes: then it neither reads nor writes nor
// closes.
type proxy struct {
	address string
	vanish  atomic.Bool
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &proxy{address: ln.Addr().String()}
	server := dial(t, to)
	go func() {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { client.Close() })
		go p.forward(server, client)
		p.forward(client, server)
	}()
	return p
}

func (p *proxy) forward(to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil || p.vanish.Load() {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
