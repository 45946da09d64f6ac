package idlenet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A foreign connection is one of another library, such as a stream of a multiplexer or a WebSocket.
// Its address is its own, and so is the error of its deadlines.
type foreign struct {
	net.Conn
	network string
	writes  []int
}

func (f *foreign) LocalAddr() net.Addr { return f }
func (f *foreign) Network() string     { return f.network }
func (f *foreign) String() string      { return f.network }

func (f *foreign) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	return n, f.own(err)
}

func (f *foreign) Write(b []byte) (int, error) {
	f.writes = append(f.writes, len(b))
	n, err := f.Conn.Write(b)
	return n, f.own(err)
}

func (f *foreign) own(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errForeign{}
	}
	return err
}

// errForeign is a timeout, but not os.ErrDeadlineExceeded.
type errForeign struct{}

func (errForeign) Error() string   { return "deadline reached" }
func (errForeign) Timeout() bool   { return true }
func (errForeign) Temporary() bool { return true }

// wrapForeign returns a connection that wraps a foreign one, and its peer.
func wrapForeign(t *testing.T, network string, p idle.Policy) (*Conn, *foreign, net.Conn) {
	t.Helper()
	bare, client := net.Pipe()
	f := &foreign{Conn: bare, network: network}
	c, err := wrapConn(f, newTracker(t, p), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); client.Close() })
	return c, f, client
}

// TestMessagesAreWhole: what isn't known to be a stream gets each message in one write. A stream gets
// a large write in steps, so that its progress is seen.
func TestMessagesAreWhole(t *testing.T) {
	const size = 300 << 10
	for network, whole := range map[string]bool{"websocket": true, "udp": true, "unixgram": true, "tcp": false, "unix": false, "pipe": false} {
		c, f, client := wrapForeign(t, network, idle.Policy{WriteTimeout: time.Hour})
		sent := random(size)
		go func() {
			if n, err := c.Write(sent); n != size || err != nil {
				t.Errorf("%s: wrote %d bytes, %v", network, n, err)
			}
			c.Close()
		}()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: something else arrives, and %v", network, err)
		}
		if most := slices.Max(f.writes); whole && most != size || !whole && most > 16<<10 { // no kernel tells what happens in a step
			t.Errorf("%s: a write of %d bytes", network, most)
		}
	}
}

// TestForeignDeadlines: a server that polls with short deadlines doesn't put ReadTimeout and
// WriteTimeout off, whatever error these give. When the limit has passed, the error is ours.
func TestForeignDeadlines(t *testing.T) {
	const limit, poll = time.Second, 100 * time.Millisecond
	for reason, test := range map[idle.Reason]struct {
		policy idle.Policy
		poll   func(*Conn) error
	}{
		idle.ReasonRead: {idle.Policy{ReadTimeout: limit}, func(c *Conn) error {
			c.SetReadDeadline(time.Now().Add(poll))
			return read1(c)
		}},
		idle.ReasonWrite: {idle.Policy{WriteTimeout: limit}, func(c *Conn) error {
			c.SetWriteDeadline(time.Now().Add(poll))
			_, err := c.Write([]byte("x"))
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _, _ := wrapForeign(t, "mux", test.policy)
			begun := time.Now()
			err := test.poll(c)
			for ; err == (errForeign{}) && time.Since(begun) < time.Minute; err = test.poll(c) {
			}
			wantTimeout(t, err, reason)
			onTime(t, time.Now(), begun, limit)
		})
	}
}
