// Command chat is a line-based chat server that notices clients which have vanished.
//
//	go run ./examples/chat
//	nc 127.0.0.1 9001
//
// Your first line is your name. If you type nothing for 5 seconds, the server sends PING, to which a
// client program would answer PONG. Any other line will do. Two unanswered pings, and you're dropped
// 11 seconds after your last line, while the others stay. If you say nothing for an hour, you're dropped too,
// even if your program answers every ping.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:9001")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("chatting on ", ln.Addr())
	log.Fatal(serve(ln))
}

// room has the lines that wait for each member. They wait in a channel, so that a member who
// doesn't read holds up nobody else.
type room struct {
	mu      sync.Mutex
	members map[chan string]bool
}

func serve(ln net.Listener) error {
	l, err := idlenet.Wrap(ln, idle.Policy{
		Heartbeat:    idle.Heartbeat{Interval: 5 * time.Second, Timeout: 3 * time.Second, Misses: 2},
		WriteTimeout: 5 * time.Second,
		IdleTimeout:  time.Hour,
		ExplicitUse:  true, // pings and PONGs don't count as use, but what members say does
	}, &idlenet.Options{Ping: func(c *idlenet.Conn) error {
		_, err := fmt.Fprintln(c, "PING")
		return err
	}})
	if err != nil {
		return err
	}
	r := &room{members: map[chan string]bool{}}
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		} else if err != nil { // such as too many open files
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go r.host(conn.(*idlenet.Conn))
	}
}

// host serves one member until it leaves or is dropped.
func (r *room) host(conn *idlenet.Conn) {
	defer conn.Close()
	lines := make(chan string, 64)
	defer close(lines)
	go func() {
		for line := range lines {
			fmt.Fprintln(conn, line)
		}
	}()
	lines <- "* who are you?"
	in := bufio.NewScanner(conn)
	if !in.Scan() {
		return
	}
	name := in.Text()
	r.mu.Lock()
	r.members[lines] = true
	r.mu.Unlock()
	r.say("* " + name + " is here")
	for in.Scan() {
		if line := in.Text(); line != "PONG" {
			conn.Use()
			r.say(name + ": " + line)
		}
	}
	r.mu.Lock()
	delete(r.members, lines)
	r.mu.Unlock()
	why := "has left"
	if err := in.Err(); err != nil { // an *idle.TimeoutError, or one of the network
		why = fmt.Sprint("was dropped: ", err)
	}
	r.say("* " + name + " " + why)
}

// say sends a line to all members except those who are 64 lines behind.
func (r *room) say(line string) {
	log.Print(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	for lines := range r.members {
		select {
		case lines <- line:
		default:
		}
	}
}
