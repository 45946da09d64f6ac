// Command broker has two phases: a client has ten seconds to connect, and then chooses its
// keep-alive, as with MQTT.
//
//	go run ./examples/broker
//	nc 127.0.0.1 9000       # type CONNECT 4, then a line every 4 seconds; after 6 silent ones it's disconnected
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	bare, err := net.Listen("tcp", "127.0.0.1:9000")
	if err == nil {
		err = serve(bare)
	}
	log.Fatal(err)
}

func serve(bare net.Listener) error {
	ln, err := idlenet.Wrap(bare, idle.Policy{Name: "login", PhaseTimeout: 10 * time.Second}, nil)
	if err != nil {
		return err
	}
	defer ln.Close()
	err = ln.Tracker().SetCapacity(idle.Capacity{MaxConns: 100_000, MinIdle: 10 * time.Minute})
	if err != nil {
		return err
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			log.Print(host(ln, conn.(*idlenet.Conn)))
		}()
	}
}

func host(ln *idlenet.Listener, conn *idlenet.Conn) error {
	in := bufio.NewScanner(conn)
	in.Scan()
	var seconds time.Duration
	if _, err := fmt.Sscanf(in.Text(), "CONNECT %d", &seconds); err != nil {
		return cmp.Or(in.Err(), err)
	}
	keepAlive := seconds * time.Second
	live, err := ln.Phase(idle.Policy{
		Name:         "live",
		WriteTimeout: 10 * time.Second,
		Heartbeat:    idle.Heartbeat{Interval: keepAlive, Timeout: keepAlive / 2, Passive: true},
	})
	if err != nil {
		return err
	}
	conn.Enter(live)
	for in.Scan() {
		conn.Beat() // a line is a beat
		fmt.Fprintln(conn, "ok")
	}
	return in.Err()
}
