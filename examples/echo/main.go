// Command echo is an echo server that closes idle clients on time.
//
//	go run ./examples/echo
//	nc localhost 9000
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	address := flag.String("address", "127.0.0.1:9000", "where to listen")
	var policy idle.Policy
	flag.DurationVar(&policy.IdleTimeout, "idle", 10*time.Second, "silence after which a client is closed")
	flag.DurationVar(&policy.WriteTimeout, "write", 5*time.Second, "how long a client may take nothing of what waits for it")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/echo [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ln, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	ln, err = idlenet.Wrap(ln, policy, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("echoing on ", ln.Addr(), "; closing clients that are silent for ", policy.IdleTimeout)
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
