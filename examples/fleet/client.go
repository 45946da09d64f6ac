package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// A crowd is thousands of simulated clients. Each is connected, or about to be.
type crowd struct {
	options
	all  []*client
	ctx  context.Context
	done context.CancelFunc // ends the crowd

	mu       sync.Mutex // guards what follows, and the connections of clients
	moved    int        // clients that were told to move, and did
	dropped  int        // connections that ended otherwise
	lastDrop string     // the client of the last one, and what it was told
}

type client struct {
	crowd   *crowd
	name    string
	session uint64
	conn    net.Conn // nil while it isn't connected
	node    string   // that has welcomed it
}

const (
	beatEvery    = 2 * time.Second
	returnWithin = 2 * time.Second // a client that was dropped connects again within this time, at random
	dialTimeout  = 10 * time.Second
)

func newCrowd(o options) *crowd {
	w := &crowd{options: o}
	w.ctx, w.done = context.WithCancel(context.Background())
	for i := range o.clients {
		w.all = append(w.all, &client{crowd: w, name: fmt.Sprint("client-", i)})
	}
	return w
}

// connect has the clients connect, at most 2,000 a second, and beat.
func (w *crowd) connect() {
	for i, c := range w.all {
		go c.live(address(w.port + i%w.nodes))
		wait(w.ctx, time.Second/2000)
	}
	go func() {
		begun, beats := time.Now(), 0
		for ; w.ctx.Err() == nil; wait(w.ctx, 10*time.Millisecond) {
			for due := int(float64(len(w.all)) * float64(time.Since(begun)) / float64(beatEvery)); beats < due; beats++ {
				if conn, _ := w.all[beats%len(w.all)].connection(); conn != nil {
					conn.Write([]byte("beat\n")) // if it fails, read fails too
				}
			}
		}
	}()
}

// at returns the clients that are connected to a node.
func (w *crowd) at(node string) (clients []*client) {
	for _, c := range w.all {
		if _, at := c.connection(); at == node {
			clients = append(clients, c)
		}
	}
	return clients
}

// lacks returns "" when all clients are connected, after at least the given number was dropped.
func (w *crowd) lacks(dropped int) string {
	if _, n, _ := w.events(); n < dropped || len(w.at("")) > 0 {
		return fmt.Sprintf("%d clients were dropped, not %d, and %d aren't connected", n, dropped, len(w.at("")))
	}
	return ""
}

// events returns what has happened so far.
func (w *crowd) events() (moved, dropped int, lastDrop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved, w.dropped, w.lastDrop
}

// other returns the address of another node, at random.
func (w *crowd) other(than string) string {
	for {
		if a := address(w.port + rand.IntN(w.nodes)); a != than || w.nodes == 1 {
			return a
		}
	}
}

// live keeps the client connected. If it's told to move, it has its new connection before it closes
// the old one.
func (c *client) live(at string) {
	w := c.crowd
	for w.ctx.Err() == nil {
		lines, err := c.dial(at)
		for err == nil {
			old, _ := c.connection()
			var next string
			if next, err = c.read(lines, at); err == nil {
				at = next
				lines, err = c.dial(at)
			}
			old.Close()
			c.note(err)
		}
		wait(w.ctx, rand.N(returnWithin))
		at = w.other(at)
	}
}

// note notes that the client has moved, or why it was dropped.
func (c *client) note(err error) {
	w := c.crowd
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.moved++
		return
	}
	c.conn, c.node = nil, ""
	w.dropped, w.lastDrop = w.dropped+1, fmt.Sprintf("%s: %v", c.name, err)
}

// dial begins a session.
func (c *client) dial(at string) (*bufio.Reader, error) {
	conn, err := net.DialTimeout("tcp", at, dialTimeout)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(c.crowd.ctx, func() { conn.Close() })
	c.session = max(c.session+1, uint64(time.Now().UnixMicro())) // greater than the last one, whatever the clock does
	conn.SetDeadline(time.Now().Add(dialTimeout))
	fmt.Fprintf(conn, "hello %s %d\n", c.name, c.session)
	lines := bufio.NewReaderSize(conn, 256)
	line, err := lines.ReadString('\n')
	node, ok := strings.CutPrefix(strings.TrimSpace(line), "welcome ")
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("no welcome from %s, but %q (%v)", at, line, err)
	}
	conn.SetDeadline(time.Time{})
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	c.conn, c.node = conn, node
	return lines, nil
}

// read reads until the client is told to move, and returns the address. If the connection ends
// before that, it fails, with the last words of the node.
func (c *client) read(lines *bufio.Reader, at string) (next string, err error) {
	for words := ""; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("%q, and %w", words, err)
		}
		words = strings.TrimSpace(line)
		if next, ok := strings.CutPrefix(words, "move"); ok && next == "" {
			return c.crowd.other(at), nil
		} else if ok {
			return strings.TrimSpace(next), nil
		}
	}
}

// connection returns the client's connection and its node, or nil and "".
func (c *client) connection() (net.Conn, string) {
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	return c.conn, c.node
}
