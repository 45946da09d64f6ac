package idlenet_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// pinging serves a protocol of lines on a free port. Clients answer PING with PONG.
func pinging(p idle.Policy) *idlenet.Listener {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ln, err := idlenet.Wrap(bare, p, &idlenet.Options{Ping: func(c *idlenet.Conn) error {
		_, err := io.WriteString(c, "PING\n")
		return err
	}})
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); io.Copy(io.Discard, conn) }()
		}
	}()
	return ln
}

// pong answers pings of ln, at most so many, and returns how many it has answered.
func pong(conn net.Conn, most int) (answered int) {
	in := bufio.NewScanner(conn)
	for ; answered < most && in.Scan(); answered++ {
		io.WriteString(conn, "PONG\n")
	}
	return answered
}

// Pings and their answers aren't use: a client that only answers is ended by IdleTimeout.
// CountsAsUse has them count.
func Example_pingsAreNotUse() {
	for _, countsAsUse := range []bool{false, true} {
		ln := pinging(idle.Policy{
			IdleTimeout: 3 * time.Second, // ten minutes in earnest
			Heartbeat: idle.Heartbeat{
				Interval:    20 * time.Millisecond, // a minute in earnest
				Timeout:     10 * time.Second,
				CountsAsUse: countsAsUse,
			},
		})
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			panic(err)
		}
		most := 160 // takes more than three seconds
		if !countsAsUse {
			most = 1000 // it's ended long before
		}
		answered := pong(client, most)
		fmt.Println("still open:", answered == most)
		client.Close()
		ln.Close()
	}
	// Prints:
	// still open: false
	// still open: true
}

// A server that pings has room for two. Alice answers pings, and bob chats. So alice makes room
// for carol, even if she has answered a ping a moment ago.
func Example_evictionBesidePings() {
	ln := pinging(idle.Policy{Heartbeat: idle.Heartbeat{Interval: 20 * time.Millisecond, Timeout: 10 * time.Second}})
	defer ln.Close()
	if err := ln.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: 100 * time.Millisecond}); err != nil {
		panic(err)
	}
	var clients []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			panic(err)
		}
		clients = append(clients, conn)
		return conn
	}
	defer func() {
		for _, conn := range clients {
			conn.Close()
		}
	}()
	alice, bob := dial(), dial()
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			if _, err := io.WriteString(bob, "hello\n"); err != nil {
				return
			}
		}
	}()
	pong(alice, 20)
	for pong(dial(), 1) == 0 { // carol tries until she's served
	}
	pong(alice, 1000)
	fmt.Println("alice is told goodbye;", ln.Stats().Evicted, "evicted")
	_, err := io.WriteString(bob, "hello\n")
	fmt.Println("bob:", err)
	// Prints:
	// alice is told goodbye; 1 evicted
	// bob: <nil>
}
