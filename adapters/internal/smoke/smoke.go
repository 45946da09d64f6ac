// Package smoke tests servers with real sockets and a real clock, in a way that a busy machine
// can't fail.
package smoke

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Limit is the idle timeout that a server under test has to have.
const Limit = 500 * time.Millisecond

const patience = 2 * time.Minute

// Run tests that the server at the address ends a client that's silent, and not one that goes on
// talking, which makes a request by exchange and reads the response. If the client itself paused
// for too long, because the machine is busy, it tries again.
func Run(t *testing.T, network, address string, exchange func(net.Conn) error) {
	dial := func(t *testing.T) net.Conn {
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		return c
	}
	t.Run("silent", func(t *testing.T) {
		c := dial(t)
		defer c.Close()
		if err := exchange(c); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(make([]byte, 1))
		if e, ok := err.(net.Error); n > 0 || err == nil || ok && e.Timeout() {
			t.Errorf("the server didn't end the connection: %d bytes, %v", n, err)
		}
	})
	t.Run("talks", func(t *testing.T) {
		var paused time.Duration
		var err error
		for begun := time.Now(); time.Since(begun) < patience; {
			c := dial(t)
			paused, err = talk(c, exchange)
			c.Close()
			if err == nil {
				return
			}
			if paused < Limit/2 {
				break
			}
		}
		t.Errorf("the server ended a client that paused for %v at most: %v", paused, err)
	})
}

// talk makes requests for three times the limit, and returns the longest pause between two of them.
func talk(c net.Conn, exchange func(net.Conn) error) (paused time.Duration, err error) {
	last := time.Now()
	for begun := last; err == nil && last.Sub(begun) < 3*Limit; {
		time.Sleep(Limit / 20)
		err = exchange(c)
		now := time.Now()
		paused, last = max(paused, now.Sub(last)), now
	}
	return paused, err
}

// Echo exchanges a message with a server that echoes.
func Echo(c net.Conn) error {
	b := []byte("hello")
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// Get exchanges a request and a response of HTTP/1.
func Get(c net.Conn) error {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
