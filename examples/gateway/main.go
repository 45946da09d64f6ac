// Command gateway is a server for devices that speak a small protocol of
// length-prefixed frames, with a timeout for each part of it, and a client that
// runs into each of them.
//
//	go run ./examples/gateway          # the gateway
//	go run ./examples/gateway -show    # clients that are closed, one after the other
//
// A device has two seconds, all in all, to say hello. In it, it may promise to
// beat at some interval; it is closed when it breaks the promise, whatever else
// it sends. One that promises nothing is closed when it is silent for too long.
package main

import (
	"flag"
	"fmt"
	"log"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:9003", "where to listen, or to connect to")
	handshake := flag.Duration("handshake", 2*time.Second, "how long a device may take to say hello")
	idle := flag.Duration("idle", 3*time.Second, "how long one that does not beat may be silent")
	show := flag.Bool("show", false, "run into the timeouts of the gateway, instead of serving")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/gateway [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *show {
		if err := showAll(*address); err != nil {
			log.Fatal(err)
		}
		return
	}
	log.Fatal(serve(*address, *handshake, *idle))
}
