// Command fasthttp is an ordinary fasthttp server that slow clients cannot hold,
// and clients that try to.
//
//	go run ./examples/fasthttp          # the server
//	go run ./examples/fasthttp -show    # slow clients, all at once, and an honest one
//	curl localhost:9004/
//
// The limits are short, so that one can watch; those of the library's zero
// Timeouts are meant for the real world. Ctrl-C shuts the server down in good
// order, and prints what it has counted. A page about the connections is on
// http://127.0.0.1:6061, and metrics for Prometheus are on /metrics there. -ops names
// another address.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

func main() {
	address := flag.String("address", "127.0.0.1:9004", "where to listen, or to connect to")
	show := flag.Bool("show", false, "run into the timeouts of the server, instead of serving")
	var t idlefasthttp.Timeouts
	flag.DurationVar(&t.HandshakeTimeout, "handshake", 2*time.Second, "how long the first byte may take")
	flag.DurationVar(&t.HeaderTimeout, "header", 3*time.Second, "how long a header may take in all")
	flag.DurationVar(&t.BodyTimeout, "body", 2*time.Second, "how long no byte of a body may arrive")
	flag.IntVar(&t.BodyRate.BytesPerSecond, "rate", 240, "minimum rate of a body and of a response, in bytes per second")
	flag.DurationVar(&t.BodyRate.Grace, "grace", 3*time.Second, "how long they may be slower than that")
	flag.DurationVar(&t.HandlerTimeout, "handler", 4*time.Second, "how long a handler and its response may take")
	flag.DurationVar(&t.WriteTimeout, "write", 2*time.Second, "how long no byte of a response may be taken")
	flag.DurationVar(&t.KeepAliveTimeout, "keep-alive", 5*time.Second, "how long the next request may take to begin")
	opsAddress := flag.String("ops", "127.0.0.1:6061", "where to serve a page about the connections, and /metrics; empty for nowhere")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/fasthttp [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	t.WriteRate = t.BodyRate
	if *show {
		if err := showAll(os.Stdout, *address); err != nil {
			log.Fatal(err)
		}
		return
	}
	ln, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log.Printf("serving /, /upload, /slow and /download on http://%v", ln.Addr())
	stats, err := serve(ctx, ln, *opsAddress, t)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%d connections; %d have left, %d are open still", stats.Tracked, stats.Closed, stats.Live)
	log.Printf("timed out by limit: %v", stats.Limits)
	log.Printf("timed out by phase: %v", stats.Phases)
}
