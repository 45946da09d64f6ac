package idlenet_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// pool keeps client connections for the next request. One that waits for too long is
// closed, before the server at the other end does so.
type pool struct {
	address string
	tracker *idle.Tracker
	inUse   *idle.Phase // by a request
	resting *idle.Phase // in the pool

	mu   sync.Mutex
	free []*idlenet.Conn
}

func newPool(address string) (*pool, error) {
	inUse := idle.Policy{Name: "in use", ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	tracker, err := idle.New(inUse, nil)
	if err != nil {
		return nil, err
	}
	p := &pool{address: address, tracker: tracker}
	if p.inUse, err = tracker.Phase(inUse); err != nil {
		return nil, err
	}
	if p.resting, err = tracker.Phase(idle.Policy{Name: "resting", IdleTimeout: time.Minute}); err != nil {
		return nil, err
	}
	return p, nil
}

// get returns a connection for a request: the one that was put back last, or a new one.
func (p *pool) get() (*idlenet.Conn, error) {
	for {
		conn := p.pop()
		if conn == nil {
			break
		}
		conn.Enter(p.inUse)
		if conn.Timeout() == nil {
			return conn, nil
		}
		conn.Close() // it has timed out
	}
	nc, err := net.Dial("tcp", p.address)
	if err != nil {
		return nil, err
	}
	fmt.Println("a new connection")
	if nc, err = idlenet.WrapConn(nc, p.tracker, nil); err != nil {
		return nil, err
	}
	return idlenet.Unwrap(nc), nil
}

// put takes back a connection whose response was read to its end.
func (p *pool) put(conn *idlenet.Conn) {
	conn.Enter(p.resting)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, conn)
}

func (p *pool) pop() *idlenet.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	last := len(p.free) - 1
	conn := p.free[last]
	p.free = p.free[:last]
	return conn
}

func (p *pool) close() {
	p.tracker.Close()
	for conn := p.pop(); conn != nil; conn = p.pop() {
		conn.Close()
	}
}

// A pool of client connections has one tracker. Connections are under one phase while
// they are used, and under another one while they wait.
func Example_clientPool() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() { // an echo server
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	p, err := newPool(ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer p.close()

	request := func(text string) {
		conn, err := p.get()
		if err != nil {
			log.Fatal(err)
		}
		answer := make([]byte, len(text))
		io.WriteString(conn, text)
		if _, err := io.ReadFull(conn, answer); err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(answer))
		p.put(conn)
	}
	request("first")
	request("second")
	if err := p.resting.SetPolicy(idle.Policy{Name: "resting", IdleTimeout: 200 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}
	for p.tracker.Stats().Live > 0 { // until the connection has rested for too long
		time.Sleep(10 * time.Millisecond)
	}
	request("third")
	// Prints:
	// a new connection
	// first
	// second
	// a new connection
	// third
}
