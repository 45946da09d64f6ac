package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

const (
	pingLine = "PING"
	pongLine = "PONG"
)

// room is who is there. Lines for a member wait in its channel, so that one who
// does not read holds nobody up.
type room struct {
	mu      sync.Mutex
	members map[chan string]string
}

func serve(address string, policy idle.Policy) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer ln.Close()
	wrapped, err := idlenet.Wrap(ln, policy, &idlenet.Options{
		Ping: func(c *idlenet.Conn) error {
			_, err := fmt.Fprintln(c, pingLine)
			return err
		},
	})
	if err != nil {
		return err
	}
	log.Printf("chatting on %v; silent clients are pinged after %v", ln.Addr(), policy.Heartbeat.Interval)
	r := &room{members: map[chan string]string{}}
	for {
		conn, err := wrapped.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		} else if err != nil { // such as too many open files
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go r.host(conn)
	}
}

// host looks after one member until it leaves, or is dropped.
func (r *room) host(conn net.Conn) {
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
	r.enter(lines, name)
	for in.Scan() {
		if line := in.Text(); line != pongLine {
			r.say(name + ": " + line)
		}
	}
	why := "left"
	var timeout *idle.TimeoutError
	if errors.As(in.Err(), &timeout) {
		why = fmt.Sprintf("was dropped: %v", timeout)
	} else if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		why = "was lost: " + err.Error()
	}
	r.leave(lines)
	r.say("* " + name + " " + why)
}

func (r *room) enter(lines chan string, name string) {
	r.mu.Lock()
	r.members[lines] = name
	r.mu.Unlock()
	r.say("* " + name + " is here")
}

func (r *room) leave(lines chan string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, lines)
}

// say sends a line to all members but those who are too far behind.
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
