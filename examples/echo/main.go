// Command echo is an echo server that closes idle clients.
//
//	go run ./examples/echo
//	nc 127.0.0.1 9000       # type nothing, and the server disconnects you after 10 seconds
package main

import (
	"errors"
	"io"
	"log"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:9000")
	if err != nil {
		log.Fatal(err)
	}
	ln, err = idlenet.Wrap(ln, idle.Policy{IdleTimeout: 10 * time.Second, WriteTimeout: 5 * time.Second}, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("echoing on ", ln.Addr())
	log.Fatal(serve(ln))
}

// serve is an accept loop like any other.
func serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		} else if err != nil { // such as too many open files
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer conn.Close()
			_, err := io.Copy(conn, conn)
			log.Print(conn.RemoteAddr(), " is gone: ", err)
		}()
	}
}
