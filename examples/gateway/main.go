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
//
// SIGTERM or Ctrl-C drains the gateway: each device is told, and ended within seconds,
// at an even rate. SIGHUP reads the limits again, and they hold for all devices that are
// connected:
//
//	echo '{"idle": "1m"}' > limits.json
//	go run ./examples/gateway -limits limits.json
//	kill -HUP PID
//
// A page about the connections is on http://127.0.0.1:6062, and metrics for Prometheus are
// on /metrics there. -ops names another address.
package main

import (
	"flag"
	"fmt"
	"log"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:9003", "where to listen, or to connect to")
	l := limits{Handshake: duration(2 * time.Second), Idle: duration(3 * time.Second)}
	flag.DurationVar((*time.Duration)(&l.Handshake), "handshake", 2*time.Second, "how long a device may take to say hello")
	flag.DurationVar((*time.Duration)(&l.Idle), "idle", 3*time.Second, "how long one that does not beat may be silent")
	file := flag.String("limits", "", "a `file` with both, like {\"handshake\": \"2s\", \"idle\": \"3s\"}, which SIGHUP has read again")
	show := flag.Bool("show", false, "run into the timeouts of the gateway, instead of serving")
	opsAddress := flag.String("ops", "127.0.0.1:6062", "where to serve a page about the connections, and /metrics; empty for nowhere")
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
	if err := serve(*address, *file, *opsAddress, l); err != nil {
		log.Fatal(err)
	}
}
