// Command echo is an echo server whose idle clients are closed on time.
//
//	go run ./examples/echo
//	nc localhost 9000
package main

import (
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
	log.Print("echoing on ", ln.Addr(), "; silence of 10s is the end")
	log.Print(serve(ln))
}

// serve is an accept loop like any other.
func serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, err := io.Copy(conn, conn)
			log.Print(conn.RemoteAddr(), " is gone: ", err)
		}()
	}
}
