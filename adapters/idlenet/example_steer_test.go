package idlenet_test

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// echoOn serves an echo server on a free port.
func echoOn(p idle.Policy, opts *idlenet.Options) *idlenet.Listener {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ln, err := idlenet.Wrap(bare, p, opts)
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); io.Copy(conn, conn) }()
		}
	}()
	return ln
}

// connectTo connects to ln, until it is served.
func connectTo(ln net.Listener) net.Conn {
	for {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			panic(err)
		}
		conn.Write([]byte("x"))
		if _, err := io.ReadFull(conn, make([]byte, 1)); err == nil {
			return conn
		}
		conn.Close() // there was no room
		time.Sleep(10 * time.Millisecond)
	}
}

// A configuration is reloaded: limits change for connections that are open.
func Example_reload() {
	ln := echoOn(idle.Policy{IdleTimeout: time.Hour}, nil)
	defer ln.Close()
	conn := connectTo(ln)
	if err := ln.Tracker().SetPolicy(idle.Policy{IdleTimeout: -time.Minute}); err != nil {
		fmt.Println(err) // and nothing has changed
	}
	if err := ln.Tracker().SetPolicy(idle.Policy{IdleTimeout: 200 * time.Millisecond}); err != nil {
		fmt.Println(err)
	}
	_, err := conn.Read(make([]byte, 1))
	fmt.Println(err)
	// Prints:
	// idle: IdleTimeout is -1m0s; use 0 to disable it
	// EOF
}

// A node is emptied: its clients are told, the most idle first, and then ended.
func Example_drain() {
	ln := echoOn(idle.Policy{IdleTimeout: time.Hour}, &idlenet.Options{
		OnDrain: func(c *idlenet.Conn) { io.WriteString(c, "connect again\n") },
	})
	first, second := connectTo(ln), connectTo(ln)
	ln.Close() // nobody else comes
	drain, err := ln.Tracker().Drain(idle.Drain{Duration: 100 * time.Millisecond, ForceAfter: time.Minute})
	if err != nil {
		panic(err)
	}
	for _, conn := range []net.Conn{first, second} {
		told, _ := io.ReadAll(conn)
		fmt.Printf("%s", told)
	}
	<-drain.Done()
	fmt.Println(ln.Stats().Drained, "ended")
	// Prints:
	// connect again
	// connect again
	// 2 ended
}

// A server has room for two. The one that is idle for longest makes room for the third.
func Example_capacity() {
	ln := echoOn(idle.Policy{IdleTimeout: time.Hour}, nil)
	defer ln.Close()
	if err := ln.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: 50 * time.Millisecond}); err != nil {
		panic(err)
	}
	first := connectTo(ln)
	time.Sleep(200 * time.Millisecond)
	second := connectTo(ln)
	third := connectTo(ln)
	_, err := first.Read(make([]byte, 1))
	fmt.Println("the first:", err)
	for _, conn := range []net.Conn{second, third} {
		conn.Write([]byte("x"))
		_, err = io.ReadFull(conn, make([]byte, 1))
		fmt.Println("another:", err)
	}
	// Prints:
	// the first: EOF
	// another: <nil>
	// another: <nil>
}
