package idlenet

import (
	"io"
	"net"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle"
)

var allLimits = idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: time.Minute}, MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: time.Minute}}

// TestSize pins the memory of a connection, which is a size class of the allocator.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	if size := unsafe.Sizeof(Conn{}); size != 200 {
		t.Errorf("a Conn takes %d bytes, not 200", size)
	}
}

// turn sends b from the client to the server and back.
func turn(t testing.TB, server, client net.Conn, b []byte) {
	client.Write(b)
	if _, err := io.ReadFull(server, b); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write(b); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(client, b)
}

func TestReadAndWriteDoNotAllocate(t *testing.T) {
	server, client := connect(t, newTracker(t, allLimits), nil)
	b := make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() { turn(t, server, client, b) }); n != 0 {
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
	for name, wraps := range map[string]bool{"bare": false, "wrapped": true} {
		b.Run(name, func(b *testing.B) {
			bare, client := tcpPair(b)
			server := net.Conn(bare)
			if wraps {
				server = wrapped(b, bare, newTracker(b, allLimits), nil)
			}
			buf := make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				turn(b, server, client, buf)
			}
		})
	}
}

// BenchmarkOverhead is what wrapping alone costs: the connection within does
// nothing.
func BenchmarkOverhead(b *testing.B) {
	buf := make([]byte, 100)
	for name, p := range map[string]idle.Policy{"one limit": {IdleTimeout: time.Minute}, "all": allLimits} {
		server := wrapped(b, nullConn{}, newTracker(b, p), nil)
		b.Run("Read, "+name, func(b *testing.B) {
			for b.Loop() {
				server.Read(buf)
			}
		})
		b.Run("Write, "+name, func(b *testing.B) {
			for b.Loop() {
				server.Write(buf)
			}
		})
	}
}

// nullConn reads and writes nothing, at once.
type nullConn struct{ net.Conn }

func (nullConn) Read(b []byte) (int, error)  { return len(b), nil }
func (nullConn) Write(b []byte) (int, error) { return len(b), nil }
func (nullConn) Close() error                { return nil }
