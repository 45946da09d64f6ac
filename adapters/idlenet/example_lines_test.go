package idlenet_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// lineServer answers commands of one line each. A client may be silent for minutes
// between two commands, but a command that has begun has to be complete soon.
type lineServer struct {
	waiting *idle.Phase // for the next command
	command *idle.Phase // from its first byte to its end
}

func newLineServer(ln net.Listener) (*lineServer, *idlenet.Listener, error) {
	waiting := idle.Policy{Name: "waiting", IdleTimeout: 5 * time.Minute, WriteTimeout: 10 * time.Second}
	l, err := idlenet.Wrap(ln, waiting, nil)
	if err != nil {
		return nil, nil, err
	}
	// PhaseTimeout counts from the first byte, and a trickle doesn't extend it.
	command := idle.Policy{Name: "command", PhaseTimeout: 100 * time.Millisecond, WriteTimeout: 10 * time.Second}
	s := new(lineServer)
	if s.waiting, err = l.Phase(waiting); err != nil {
		return nil, nil, err
	}
	if s.command, err = l.Phase(command); err != nil {
		return nil, nil, err
	}
	return s, l, nil
}

func (s *lineServer) serve(conn *idlenet.Conn) error {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		if _, err := in.Peek(1); err != nil { // the first byte of a command
			return err
		}
		conn.Enter(s.command)
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		conn.Enter(s.waiting)
		if _, err := fmt.Fprintln(conn, "you said", strings.TrimSpace(line)); err != nil {
			return err
		}
	}
}

// A line server gives each command a deadline of its own, by entering a phase with its
// first byte and another one with its end.
func Example_lineServer() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server, ln, err := newLineServer(bare)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() { // a client whose second command is never complete
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		io.WriteString(client, "hello\nhel")
		io.Copy(io.Discard, client)
	}()

	conn, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	err = server.serve(conn.(*idlenet.Conn))
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Phase, timeout.Setting, timeout.Limit)
	}
	// Prints: command PhaseTimeout 100ms
}
