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

// chat serves a protocol of lines on a free port, and pings its clients. They answer PING with PONG. All other
// lines are messages, and use.
func chat(p idle.Policy) *idlenet.Listener {
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
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					if in.Text() != "PONG" {
						conn.(*idlenet.Conn).Use()
					}
				}
			}()
		}
	}()
	return ln
}

// join dials ln. The client answers pings until its connection ends, and then closes the channel.
func join(ln net.Listener) (client net.Conn, ended chan struct{}) {
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(client); in.Scan(); {
			io.WriteString(client, "PONG\n")
		}
	}()
	return client, ended
}

// say sends a message every 10 ms.
func say(client net.Conn) {
	for range time.Tick(10 * time.Millisecond) {
		if _, err := io.WriteString(client, "hello\n"); err != nil {
			return
		}
	}
}

// A chat pings its clients. With ExplicitUse, neither pings nor their answers keep a client from being idle, but
// messages do, because the server calls Use.
func Example_explicitUse() {
	policy := idle.Policy{
		ExplicitUse: true,
		IdleTimeout: 3 * time.Second, // ten minutes in earnest
		Heartbeat:   idle.Heartbeat{Interval: 20 * time.Millisecond, Timeout: 10 * time.Second},
	}
	ln := chat(policy)
	defer ln.Close()
	alice, ended := join(ln)
	defer alice.Close()
	bob, bobEnded := join(ln)
	defer bob.Close()
	go say(bob)
	<-ended // alice only answers pings
	select {
	case <-bobEnded:
		fmt.Println("bob has left too")
	default:
		fmt.Println("bob stays;", ln.Stats().TimedOut)
	}

	// Without ExplicitUse every byte is use, so such an IdleTimeout would never pass.
	policy.ExplicitUse = false
	fmt.Println(ln.Tracker().SetPolicy(policy))
	// Prints:
	// bob stays; map[idle:1]
	// idle: IdleTimeout is 3s, but connections are pinged every 20ms, and pings count as use, so it would never pass; set ExplicitUse and call Conn.Use for what is use, or leave IdleTimeout 0
}

// A chat has room for two. Alice answers pings, and bob says something. So alice makes room
// for carol, even if she has answered a ping a moment ago.
func Example_evictionBesidePings() {
	ln := chat(idle.Policy{ExplicitUse: true, Heartbeat: idle.Heartbeat{Interval: 20 * time.Millisecond, Timeout: 10 * time.Second}})
	defer ln.Close()
	if err := ln.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: 100 * time.Millisecond}); err != nil {
		panic(err)
	}
	alice, aliceEnded := join(ln)
	defer alice.Close()
	bob, _ := join(ln)
	defer bob.Close()
	go say(bob)
	for over := false; !over; { // carol tries until she's served
		carol, refused := join(ln)
		defer carol.Close()
		select {
		case <-refused:
		case <-aliceEnded:
			over = true
		}
	}
	fmt.Println("alice is told goodbye;", ln.Stats().Evicted, "evicted")
	_, err := io.WriteString(bob, "hello\n")
	fmt.Println("bob:", err)
	// Prints:
	// alice is told goodbye; 1 evicted
	// bob: <nil>
}
