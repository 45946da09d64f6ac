package idlenet

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func benchTracker(t testing.TB) *idle.Tracker {
	t.Helper()
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: time.Minute}, MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: time.Minute}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracker.Close() })
	return tracker
}

func TestReadAndWriteDoNotAllocate(t *testing.T) {
	server, client := connect(t, benchTracker(t), nil)
	b := make([]byte, 100)
	turn := func() {
		client.Write(b)
		if _, err := io.ReadFull(server, b); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Write(b); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(client, b)
	}
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations for a read and a write", n)
	}
}

// BenchmarkEcho is a turn of 100 bytes over loopback and back.
//
// A goroutine waits in a Read elsewhere, as in any server. Without it the
// scheduler has nobody in epoll_wait if there is no timer either, which makes a
// turn without timeouts cheaper than it ever is, by more than timeouts cost.
func BenchmarkEcho(b *testing.B) {
	parked, _ := tcpPair(b)
	go parked.Read(make([]byte, 1))
	for name, prepare := range map[string]func(*testing.B, *net.TCPConn) (conn net.Conn, before func()){
		"bare": func(_ *testing.B, bare *net.TCPConn) (net.Conn, func()) { return bare, func() {} },
		"SetReadDeadline": func(_ *testing.B, bare *net.TCPConn) (net.Conn, func()) {
			return bare, func() { bare.SetReadDeadline(time.Now().Add(time.Minute)) }
		},
		"SetDeadlines": func(_ *testing.B, bare *net.TCPConn) (net.Conn, func()) {
			return bare, func() {
				bare.SetReadDeadline(time.Now().Add(time.Minute))
				bare.SetWriteDeadline(time.Now().Add(time.Minute))
			}
		},
		"wrapped": func(b *testing.B, bare *net.TCPConn) (net.Conn, func()) {
			server, err := wrapConn(bare, benchTracker(b), nil)
			if err != nil {
				b.Fatal(err)
			}
			return server, func() {}
		},
	} {
		b.Run(name, func(b *testing.B) {
			bare, client := tcpPair(b)
			server, before := prepare(b, bare)
			defer server.Close()
			buf := make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				client.Write(buf)
				before()
				if _, err := io.ReadFull(server, buf); err != nil {
					b.Fatal(err)
				}
				if _, err := server.Write(buf); err != nil {
					b.Fatal(err)
				}
				io.ReadFull(client, buf)
			}
		})
	}
}

// BenchmarkOverhead is what wrapping alone costs: the connection within does
// nothing.
func BenchmarkOverhead(b *testing.B) {
	server, err := wrapConn(nullConn{}, benchTracker(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	buf := make([]byte, 100)
	b.Run("Read", func(b *testing.B) {
		for b.Loop() {
			server.Read(buf)
		}
	})
	b.Run("Write", func(b *testing.B) {
		for b.Loop() {
			server.Write(buf)
		}
	})
	one, err := wrapConn(nullConn{}, newTracker(b, idle.Policy{IdleTimeout: time.Minute}), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer one.Close()
	b.Run("ReadOneLimit", func(b *testing.B) {
		for b.Loop() {
			one.Read(buf)
		}
	})
}

// nullConn reads and writes nothing, at once.
type nullConn struct{ net.Conn }

func (nullConn) Read(b []byte) (int, error)  { return len(b), nil }
func (nullConn) Write(b []byte) (int, error) { return len(b), nil }
func (nullConn) Close() error                { return nil }
