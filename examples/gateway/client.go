package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// showAll runs into each timeout of the gateway, and shows what it was told.
func showAll(address string) error {
	for _, show := range []struct {
		what string
		run  func(*client) error
	}{
		{"says nothing", func(*client) error { return nil }},
		{"says half a hello, a byte a second", trickle},
		{"promises to beat, does so for a while, and then only sends data", stopBeating},
		{"promises nothing, and falls silent", fallSilent},
	} {
		fmt.Println("a device that", show.what)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		c := &client{Conn: conn, begun: time.Now()}
		done := make(chan error)
		go func() { done <- show.run(c) }()
		c.listen()
		conn.Close()
		<-done // it failed because it was closed, if at all
	}
	return nil
}

// client is a device that misbehaves.
type client struct {
	net.Conn
	begun time.Time
}

func (c *client) say(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(c.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (c *client) send(f frame) error {
	c.say("sends %c %q", f.kind, f.body)
	_, err := c.Write(f.append(nil))
	return err
}

// listen shows all frames, until the gateway has closed the connection.
func (c *client) listen() {
	for {
		f, err := readFrame(c)
		if err != nil {
			c.say("closed: %v", err)
			return
		}
		c.say("gets %c %q", f.kind, f.body)
	}
}

func (c *client) hello(interval time.Duration) error {
	return c.send(frame{hello, binary.BigEndian.AppendUint32(nil, uint32(interval.Milliseconds()))})
}

func trickle(c *client) error {
	for _, b := range (frame{hello, make([]byte, 100)}).append(nil)[:3] {
		c.say("sends a byte")
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

func stopBeating(c *client) error {
	const interval = time.Second
	if err := c.hello(interval); err != nil {
		return err
	}
	for i := range 6 {
		time.Sleep(interval / 2)
		f := frame{data, []byte("are you there?")}
		if i%2 == 1 && i < 4 {
			f = frame{beat, nil}
		}
		if err := c.send(f); err != nil {
			return err
		}
	}
	return nil
}

func fallSilent(c *client) error {
	if err := c.hello(0); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return c.send(frame{data, []byte("good night")})
}
