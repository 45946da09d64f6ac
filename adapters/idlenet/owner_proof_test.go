//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Wrappers of other libraries, which show the socket inside by one method or the other.
type (
	netConned struct{ net.Conn }
	rawed     struct{ net.Conn }
)

func (w netConned) NetConn() net.Conn { return w.Conn }
func (w rawed) Raw() net.Conn         { return w.Conn }

// A peer that doesn't read is reset, also behind a wrapper, because the kernel would keep its bytes
// for minutes. One that merely sends nothing gets an end in good order.
func TestWhoTakesNothingIsReset(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"socket":  func(nc net.Conn) net.Conn { return nc },
		"NetConn": func(nc net.Conn) net.Conn { return netConned{nc} },
		"Raw":     func(nc net.Conn) net.Conn { return rawed{nc} },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); testReset(t, wrap) })
	}
}

func testReset(t *testing.T, wrap func(net.Conn) net.Conn) {
	const limit = 300 * time.Millisecond
	for _, closes := range []bool{true, false} { // or the tracker does
		tracker := newTracker(t, idle.Policy{WriteTimeout: limit, ReadTimeout: limit})
		ends := func(c *Conn) {
			if closes {
				c.Close()
			} else {
				eventually(t, "it is closed", func() bool { return errors.Is(c.NetConn().SetDeadline(time.Time{}), net.ErrClosed) })
			}
		}
		connect := func() (server *Conn, client *net.TCPConn) {
			bare, client := tcpPair(t)
			server, err := wrapConn(wrap(bare), tracker, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Close() })
			return server, client
		}
		server, client := connect()
		err, _ := await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
		wantTimeout(t, err, idle.ReasonWrite)
		ends(server)
		silent, sender := connect()
		err, _ = await(t, func() error { return read1(silent) })
		wantTimeout(t, err, idle.ReasonRead)
		ends(silent)
		client.SetReadDeadline(time.Now().Add(patience))
		if err := readAll(client); errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("who takes nothing gets %v", err)
		}
		sender.SetReadDeadline(time.Now().Add(patience))
		if err := readAll(sender); err != io.EOF {
			t.Errorf("who sends nothing gets %v", err)
		}
	}
}
