package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	beat  = 'b' // what the echo victims take for a heartbeat, each byte one
	noise = 'n' // and for nothing at all
	quit  = 'q' // asks them to close, so that everything before it has been read
)

// amounts is how much is done in a round.
var amounts = struct{ flood, drip, churn int }{flood: 16 << 20, drip: 20_000, churn: 1000}

// flood sends messages, as many as the server takes, in large writes.
func flood(message string) func(kind, address string) (int, error) {
	return func(kind, address string) (int, error) {
		batch := bytes.Repeat([]byte(message), 64<<10/len(message))
		n := amounts.flood / len(batch)
		if kind == "idlehttp" {
			n /= 8 // a request is more work than as many beats
		}
		return send(kind, address, func(c net.Conn) error {
			for range n {
				if _, err := c.Write(batch); err != nil {
					return err
				}
			}
			return nil
		}, n*len(batch))
	}
}

// drip sends byte by byte, on many connections in turns, so that the server
// reads each by itself: what came close together it would read at once.
func drip(kind, address string) (int, error) {
	var all []*dump
	defer func() {
		for _, s := range all {
			s.Close()
		}
	}()
	for range dripConns {
		s, err := open(address)
		if err != nil {
			return 0, err
		}
		all = append(all, s)
		if kind == "idlehttp" {
			if _, err := io.WriteString(s, "GET / HTTP/1.1\r\n"); err != nil {
				return 0, err
			}
		}
	}
	each := max(1, amounts.drip/dripConns)
	for i := range each {
		b := []byte{beat}
		if kind == "idlehttp" {
			b[0] = header[i%len(header)]
		}
		for _, s := range all {
			if _, err := s.Write(b); err != nil {
				return 0, err
			}
		}
	}
	for _, s := range all {
		if err := s.finish(kind); err != nil {
			return 0, err
		}
	}
	return each * dripConns, nil
}

const dripConns = 100

const header = "Hostile: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n"

// send connects, has write send something, and waits until the server has read
// all of it and closed.
func send(kind, address string, write func(net.Conn) error, n int) (int, error) {
	s, err := open(address)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := write(s); err != nil {
		return 0, fmt.Errorf("after it was sent much: %w", err)
	}
	return n, s.finish(kind)
}

// A dump is a connection of which all answers are thrown away.
type dump struct {
	net.Conn
	drained chan error
}

func open(address string) (*dump, error) {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	s := &dump{c, make(chan error, 1)}
	go func() {
		_, err := io.Copy(io.Discard, c)
		s.drained <- err
	}()
	return s, nil
}

// finish asks the server to close, and waits until it has.
func (s *dump) finish(kind string) error {
	end := string(rune(quit))
	if kind == "idlehttp" {
		end = "\r\nGET / HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n"
	}
	if _, err := io.WriteString(s, end); err != nil {
		return err
	}
	if err := <-s.drained; err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// churn opens connections and closes them at once.
func churn(_, address string) (int, error) {
	for range amounts.churn {
		c, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err != nil {
			return 0, err
		}
		c.(*net.TCPConn).SetLinger(0) // no port waits for a minute
		c.Close()
	}
	return amounts.churn, nil
}
