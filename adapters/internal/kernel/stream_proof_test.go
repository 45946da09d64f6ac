//go:build proof

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// outcome is what came of an operation, as far as users can tell.
func outcome(c net.Conn, n int, err error) string {
	var kinds []string
	for _, kind := range []error{io.EOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, kind) {
			kinds = append(kinds, kind.Error())
		}
	}
	text := fmt.Sprintf("%d bytes, %T %v, which is %q", n, err, err, kinds)
	if c.LocalAddr().Network() == "unix" { // whose ends have one address
		return strings.ReplaceAll(text, c.LocalAddr().String(), "server")
	}
	return strings.NewReplacer(c.LocalAddr().String(), "server", c.RemoteAddr().String(), "client").Replace(text)
}

// read1 reads a byte, write1 writes one. fill writes more than there is room for.
func read1(c net.Conn) string { n, err := c.Read(make([]byte, 1)); return outcome(c, n, err) }

func write1(c net.Conn) string { n, err := c.Write(make([]byte, 1)); return outcome(c, n, err) }

func fill(c net.Conn) string { _, err := c.Write(make([]byte, 64<<20)); return outcome(c, 0, err) }

// A socket is a TCP or Unix socket of package net.
type socket interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// A kind is a kind of connection that this package makes, and what it makes it of.
type kind struct {
	network, address string
	wrap             func(net.Conn, Waiter) net.Conn
}

func kinds(t *testing.T) []kind {
	return []kind{
		{"tcp", "127.0.0.1:0", func(nc net.Conn, w Waiter) net.Conn { made, _ := Stream(nc, w); return made }},
		{"unix", filepath.Join(t.TempDir(), "s"), func(nc net.Conn, w Waiter) net.Conn {
			made, _ := Queue(nc.(*net.UnixConn), w)
			return made
		}},
	}
}

// Whatever goes wrong, it fails with what package net fails with.
func TestFailsAsNetDoes(t *testing.T) {
	later := func(f func()) { time.AfterFunc(20*time.Millisecond, f) }
	reset := func(client socket) {
		if tcp, ok := client.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		client.Close()
	}
	for name, fail := range map[string]func(c net.Conn, bare, client socket) string{
		"read when closed":   func(c net.Conn, _, _ socket) string { c.Close(); return read1(c) },
		"write when closed":  func(c net.Conn, _, _ socket) string { c.Close(); return write1(c) },
		"nothing is read":    func(c net.Conn, _, _ socket) string { n, err := c.Read(nil); return outcome(c, n, err) },
		"nothing is written": func(c net.Conn, _, _ socket) string { n, err := c.Write(nil); return outcome(c, n, err) },
		"nothing, and closed": func(c net.Conn, _, _ socket) string {
			c.Close()
			n, err := c.Read(nil)
			m, err2 := c.Write(nil)
			return outcome(c, n, err) + outcome(c, m, err2)
		},
		"read at the end":        func(c net.Conn, _, client socket) string { client.Close(); return read1(c) },
		"read after CloseRead":   func(c net.Conn, bare, _ socket) string { bare.CloseRead(); return read1(c) },
		"write after CloseWrite": func(c net.Conn, bare, _ socket) string { bare.CloseWrite(); return write1(c) },
		"read after reset":       func(c net.Conn, _, client socket) string { reset(client); return read1(c) + read1(c) },
		"write after reset":      func(c net.Conn, _, client socket) string { reset(client); return read1(c) + write1(c) },
		"reset while writing":    func(c net.Conn, _, client socket) string { later(func() { reset(client) }); return fill(c) },
		"read past the deadline": func(c net.Conn, _, _ socket) string { c.SetReadDeadline(time.Unix(1, 0)); return read1(c) },
		"write past the deadline": func(c net.Conn, _, _ socket) string {
			c.SetWriteDeadline(time.Unix(1, 0))
			return write1(c)
		},
		"read until the deadline": func(c net.Conn, _, client socket) string {
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			first := read1(c)
			c.SetReadDeadline(time.Time{})
			client.Write([]byte("x"))
			return first + read1(c)
		},
		"write until the deadline": func(c net.Conn, _, _ socket) string {
			c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			return fill(c)
		},
		"closed while reading": func(c net.Conn, _, _ socket) string { later(func() { c.Close() }); return read1(c) },
		"closed while writing": func(c net.Conn, _, _ socket) string { later(func() { c.Close() }); return fill(c) },
	} {
		for _, k := range kinds(t) {
			t.Run(k.network+", "+name, func(t *testing.T) {
				var got [2]string
				for i, wrap := range []func(net.Conn, Waiter) net.Conn{k.wrap, func(nc net.Conn, _ Waiter) net.Conn { return nc }} {
					server, client := connect(t, k.network, k.address)
					c := wrap(server, nobody{})
					done := make(chan string, 1)
					go func() { done <- fail(c, server.(socket), client.(socket)) }()
					select {
					case got[i] = <-done:
					case <-time.After(patience):
						t.Fatalf("nothing came of it within %v", patience)
					}
				}
				if got[0] != got[1] {
					t.Errorf("it comes to\n%s\nwhere package net comes to\n%s", got[0], got[1])
				}
			})
		}
	}
}

// Every byte arrives, in both directions at once, whatever the sizes of reads and
// writes.
func TestMovesAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(i / 1000)
	}
	for _, k := range kinds(t) {
		server, client := connect(t, k.network, k.address)
		failed := make(chan error, 4)
		for i, end := range []net.Conn{server, client} {
			sizes := [2]*rand.Rand{rand.New(rand.NewPCG(seed, uint64(i))), rand.New(rand.NewPCG(seed, uint64(i)+2))}
			end.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(64 << 10)
			end = k.wrap(end, nobody{})
			go func() { // a reader that takes its time now and then, so that writers wait
				var got []byte
				var err error
				b := make([]byte, 200<<10)
				for n := 0; len(got) < len(data) && err == nil; got = append(got, b[:n]...) {
					if sizes[0].IntN(50) == 0 {
						time.Sleep(time.Millisecond)
					}
					n, err = end.Read(b[:1+sizes[0].IntN(len(b))])
				}
				if err == nil && !bytes.Equal(got, data) {
					err = errors.New("what arrives is something else")
				}
				failed <- err
			}()
			go func() {
				for rest := data; len(rest) > 0; {
					n := min(1+sizes[1].IntN(300<<10), len(rest))
					if m, err := end.Write(rest[:n]); m != n || err != nil {
						failed <- fmt.Errorf("%d of %d bytes are written: %w", m, n, err)
						return
					}
					rest = rest[n:]
				}
				failed <- nil
			}()
		}
		for range cap(failed) {
			if err := <-failed; err != nil {
				t.Fatal(k.network, ": ", err)
			}
		}
	}
}

// What was read to, or written from, can go when that is over, however it ended.
func TestStreamKeepsNoBuffer(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	c, _ := Stream(server, nobody{})
	client.Write([]byte("x"))
	var kept atomic.Int32
	buffer := func() []byte {
		kept.Add(1)
		b := new([1000]byte)
		runtime.AddCleanup(b, func(int) { kept.Add(-1) }, 0)
		return b[:]
	}
	c.Read(buffer())
	c.Write(buffer())
	c.SetDeadline(time.Unix(1, 0))
	c.Read(buffer())
	c.Write(buffer())
	eventually(t, "none is kept", func() bool { runtime.GC(); return kept.Load() == 0 })
	runtime.KeepAlive(c)
}
