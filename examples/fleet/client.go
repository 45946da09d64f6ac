package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// client is a simulated client. It is always connected, or about to be.
type client struct {
	crowd *crowd
	index int
	name  string

	mu   sync.Mutex      // guards what follows
	conn net.Conn        // nil while it is not connected
	at   directory.Place // where it is, as the node has said
	last uint64          // its last session
}

// A Move is a client that was told to go to another node.
type Move struct {
	Told  time.Time `json:"told"`
	There time.Time `json:"there"`
	Node  string    `json:"node"` // to which it went
}

func clientName(i int) string { return fmt.Sprintf("client-%d", i) }

// live keeps the client connected. One that has lost its connection waits for a moment of its
// own before it comes back: thousands do so at once when a node has crashed.
func (c *client) live(address string) {
	for {
		conn, r, err := c.connect(address)
		for err == nil {
			address = c.read(r)
			old, told := conn, time.Now()
			if address == "" { // lost, and not told to move
				c.lose()
				old.Close()
				break
			}
			if conn, r, err = c.connect(address); err == nil { // before the old one is closed
				c.crowd.noteMove(Move{told, time.Now(), c.place().Node})
			} else {
				c.lose()
			}
			old.Close()
		}
		time.Sleep(rand.N(c.crowd.order.Spread) + 10*time.Millisecond)
		address = c.crowd.order.Nodes[rand.IntN(len(c.crowd.order.Nodes))]
	}
}

var errElsewhere = errors.New("the node does not take clients")

// connect begins a session. A node that is being drained may send it on to another one.
func (c *client) connect(address string) (net.Conn, *bufio.Reader, error) {
	for range 3 {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			return nil, nil, err
		}
		c.mu.Lock()
		c.last = max(c.last+1, uint64(time.Now().UnixMicro())) // more than the last one, whatever the clock does
		session := c.last
		c.mu.Unlock()
		r := bufio.NewReaderSize(conn, 256)
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Write(wire.NewHello(c.name, session).Append(nil))
		f, err2 := wire.ReadFrame(r)
		if errors.Join(err, err2) == nil && f.Kind == wire.Welcome {
			conn.SetDeadline(time.Time{})
			c.mu.Lock()
			c.conn, c.at = conn, directory.Place{Node: string(f.Body), Session: session}
			c.mu.Unlock()
			c.crowd.noteArrival(c)
			return conn, r, nil
		}
		conn.Close()
		if f.Kind != wire.Move || len(f.Body) == 0 {
			break
		}
		address = string(f.Body)
	}
	return nil, nil, errElsewhere
}

// read takes what comes, until the connection is lost, or the client has to move to the
// address that it returns.
func (c *client) read(r io.Reader) (address string) {
	for {
		f, err := wire.ReadFrame(r)
		if err != nil || f.Kind == wire.Move {
			return string(f.Body)
		}
		l, ok := wire.ParseLetter(f.Body)
		switch {
		case f.Kind == wire.Message && ok:
			c.crowd.noteReceived(l.ID)
			c.send(wire.Frame{Kind: wire.Ack, Body: wire.Letter{ID: l.ID, Name: l.Name}.Append(nil)})
		case f.Kind == wire.Ack && ok:
			c.crowd.noteAcked(l.ID)
		}
	}
}

// lose notes that the connection is gone.
func (c *client) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.at = nil, directory.Place{}
}

// cut closes the connection. The client finds that it is lost.
func (c *client) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
}

func (c *client) place() directory.Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// send sends a frame, if the client is connected.
func (c *client) send(f wire.Frame) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		conn.Write(f.Append(nil)) // if that fails, the connection is lost, which read finds out
	}
}
