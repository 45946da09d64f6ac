package idlenet_test

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A client may ping to keep its connection alive, but not all the time. This server allows
// one ping every ten seconds and a burst of three, and ends a connection that exceeds
// that. The network can deliver delayed pings together, so the burst shouldn't be 1.
func Example_tooManyPings() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	go fmt.Fprint(client, strings.Repeat("PING\n", 10))

	accepted, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	conn := accepted.(*idlenet.Conn)
	defer conn.Close()
	pings := rate.NewLimiter(rate.Every(10*time.Second), 3)
	answered := 0
	in := bufio.NewScanner(conn)
	for in.Scan() {
		switch {
		case in.Text() != "PING":
			// handle the message
		case pings.Allow():
			answered++
		default:
			conn.End("too many pings")
		}
	}

	// The read fails with the cause.
	var ended *idle.TimeoutError
	if errors.As(in.Err(), &ended) {
		fmt.Println(answered, "pings answered;", ended.Reason, "because of", ended.Cause)
	}
	fmt.Println(ln.Stats().Causes)
	// Output:
	// 3 pings answered; shed because of too many pings
	// map[too many pings:1]
}
