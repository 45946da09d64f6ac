//go:build proof

package idlenet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// sniffed is a connection of which somebody has read the beginning, and gives
// it back: a common kind of wrapper. What it has, the kernel does not know of.
type sniffed struct {
	*net.TCPConn
	all io.Reader
}

func (c sniffed) Read(b []byte) (int, error) { return c.all.Read(b) }

func (c sniffed) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{c}) }

func TestConnectionThatOverridesReadIsReadByIt(t *testing.T) {
	t.Parallel()
	const much = 200 << 10
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	sniff := func(t *testing.T) (sniffed, *net.TCPConn) {
		conn, peer := tcpPair(t)
		return sniffed{conn, io.MultiReader(bytes.NewReader(random(much)[:much/2]), conn)}, peer
	}
	for name, start := range map[string]func(src sniffed, dst net.Conn) (io.Reader, io.Writer){
		"as source of ReadFrom": func(src sniffed, dst net.Conn) (io.Reader, io.Writer) {
			c, _ := wrapConn(dst, tracker, nil)
			t.Cleanup(func() { c.Close() })
			return struct{ sniffed }{src}, c
		},
		"wrapped": func(src sniffed, dst net.Conn) (io.Reader, io.Writer) {
			c, _ := wrapConn(src, tracker, nil)
			t.Cleanup(func() { c.Close() })
			return c, dst
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, client := sniff(t)
			go client.Write(random(much)[much/2:])
			dst, server := tcpPair(t)
			r, w := start(src, dst)
			if _, ok := w.(*Conn); ok {
				go w.(*Conn).ReadFrom(r)
			} else {
				go io.Copy(w, r)
			}
			server.SetReadDeadline(time.Now().Add(patience))
			got := make([]byte, much)
			if n, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, random(much)) {
				t.Errorf("%d bytes arrive, or others than were sent: %v", n, err)
			}
		})
	}
}

// A source that resets fails the copy as a Read would have failed.
func TestResetOfSourceIsAnOpError(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	for _, to := range []string{"tcp", "wrapped tcp", "buffer"} {
		t.Run(to, func(t *testing.T) {
			source, client := connect(t, tracker, nil)
			dst, _ := sinks[to](t, tracker)
			time.AfterFunc(50*time.Millisecond, func() { client.SetLinger(0); client.Close() })
			err, _ := await(t, func() error { _, err := io.Copy(dst, source); return err })
			var op *net.OpError
			if !errors.As(err, &op) || op.Timeout() {
				t.Errorf("got %v, a %T, want a *net.OpError", err, err)
			}
		})
	}
}
