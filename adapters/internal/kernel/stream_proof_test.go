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
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// outcome is what came of an operation, as far as users can tell.
func outcome(c net.Conn, n int, err error) string {
	var kinds []string
	for _, kind := range []error{io.EOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, kind) {
			kinds = append(kinds, kind.Error())
		}
	}
	text := fmt.Sprintf("%d bytes, %T %v, which is %q", n, err, err, kinds)
	return strings.NewReplacer(c.LocalAddr().String(), "server", c.RemoteAddr().String(), "client").Replace(text)
}

// read1 reads a byte, write1 writes one.
func read1(c net.Conn) string { n, err := c.Read(make([]byte, 1)); return outcome(c, n, err) }

func write1(c net.Conn) string { n, err := c.Write(make([]byte, 1)); return outcome(c, n, err) }

// Whatever goes wrong, it fails with what package net fails with.
func TestStreamFailsAsNetDoes(t *testing.T) {
	fill := func(c net.Conn) string {
		_, err := c.Write(make([]byte, 64<<20))
		return outcome(c, 0, err)
	}
	reset := func(client *net.TCPConn) { client.SetLinger(0); client.Close() }
	for name, fail := range map[string]func(c net.Conn, tcp, client *net.TCPConn) string{
		"read when closed":   func(c net.Conn, _, _ *net.TCPConn) string { c.Close(); return read1(c) },
		"write when closed":  func(c net.Conn, _, _ *net.TCPConn) string { c.Close(); return write1(c) },
		"nothing is read":    func(c net.Conn, _, _ *net.TCPConn) string { n, err := c.Read(nil); return outcome(c, n, err) },
		"nothing is written": func(c net.Conn, _, _ *net.TCPConn) string { n, err := c.Write(nil); return outcome(c, n, err) },
		"nothing, and closed": func(c net.Conn, _, _ *net.TCPConn) string {
			c.Close()
			n, err := c.Read(nil)
			m, err2 := c.Write(nil)
			return outcome(c, n, err) + outcome(c, m, err2)
		},
		"read at the end": func(c net.Conn, _, client *net.TCPConn) string { client.Close(); return read1(c) },
		"read after CloseRead": func(c net.Conn, tcp, _ *net.TCPConn) string {
			tcp.CloseRead()
			return read1(c)
		},
		"write after CloseWrite": func(c net.Conn, tcp, _ *net.TCPConn) string {
			tcp.CloseWrite()
			return write1(c)
		},
		"read after reset": func(c net.Conn, _, client *net.TCPConn) string {
			reset(client)
			return read1(c) + read1(c)
		},
		"write after reset": func(c net.Conn, _, client *net.TCPConn) string {
			reset(client)
			return read1(c) + write1(c)
		},
		"reset while writing": func(c net.Conn, _, client *net.TCPConn) string {
			time.AfterFunc(20*time.Millisecond, func() { reset(client) })
			return fill(c)
		},
		"read past the deadline": func(c net.Conn, _, _ *net.TCPConn) string {
			c.SetReadDeadline(time.Unix(1, 0))
			return read1(c)
		},
		"write past the deadline": func(c net.Conn, _, _ *net.TCPConn) string {
			c.SetWriteDeadline(time.Unix(1, 0))
			return write1(c)
		},
		"read until the deadline": func(c net.Conn, _, client *net.TCPConn) string {
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			first := read1(c)
			c.SetReadDeadline(time.Time{})
			client.Write([]byte("x"))
			return first + read1(c)
		},
		"write until the deadline": func(c net.Conn, _, _ *net.TCPConn) string {
			c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			return fill(c)
		},
		"closed while reading": func(c net.Conn, _, _ *net.TCPConn) string {
			time.AfterFunc(20*time.Millisecond, func() { c.Close() })
			return read1(c)
		},
		"closed while writing": func(c net.Conn, _, _ *net.TCPConn) string {
			time.AfterFunc(20*time.Millisecond, func() { c.Close() })
			return fill(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [2]string
			for i, wrap := range []func(net.Conn) net.Conn{streamOf, Unwrap} {
				server, client := connect(t, "tcp", "127.0.0.1:0")
				c := wrap(server)
				done := make(chan string, 1)
				go func() { done <- fail(c, server.(*net.TCPConn), client.(*net.TCPConn)) }()
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

// Every byte arrives, in both directions at once, whatever the sizes of reads and
// writes.
func TestStreamMovesAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	server, client := connect(t, "tcp", "127.0.0.1:0")
	for _, tcp := range []net.Conn{server, client} {
		tcp.(*net.TCPConn).SetReadBuffer(64 << 10)
		tcp.(*net.TCPConn).SetWriteBuffer(64 << 10)
	}
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	ends := [2]net.Conn{streamOf(server), streamOf(client)}
	failed := make(chan error, 4)
	for i, end := range ends {
		sizes := rand.New(rand.NewPCG(seed, uint64(i)))
		go func() { // a reader that takes its time now and then, so that writers wait
			got := make([]byte, 0, len(data))
			b := make([]byte, 200<<10)
			for len(got) < len(data) {
				n, err := end.Read(b[:1+sizes.IntN(len(b))])
				if err != nil {
					failed <- fmt.Errorf("reading, after %d bytes: %w", len(got), err)
					return
				}
				got = append(got, b[:n]...)
				if sizes.IntN(50) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if !bytes.Equal(got, data) {
				failed <- errors.New("what arrives is something else")
				return
			}
			failed <- nil
		}()
		sizes2 := rand.New(rand.NewPCG(seed, uint64(i)+2))
		go func() {
			for rest := data; len(rest) > 0; {
				n := min(1+sizes2.IntN(300<<10), len(rest))
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
			t.Fatal(err)
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
