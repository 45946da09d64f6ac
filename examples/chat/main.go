// Command chat is a line-based chat server that notices clients which are gone
// without a word, and a client for it.
//
//	go run ./examples/chat                  # the server
//	go run ./examples/chat -join alice      # a client that answers pings
//	nc localhost 9001                       # one that does not: what is typed counts
//
// Stop a client with Ctrl-Z, or kill -STOP, and see it being pinged and dropped
// while the others stay.
package main

import (
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	address := flag.String("address", "127.0.0.1:9001", "where to listen, or to join")
	interval := flag.Duration("interval", 5*time.Second, "silence after which a client is pinged")
	timeout := flag.Duration("timeout", 3*time.Second, "how long a client may take to answer")
	misses := flag.Int("misses", 2, "unanswered pings after which a client is dropped")
	name := flag.String("join", "", "join as this name, instead of serving")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/chat [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *name != "" {
		log.Fatal(join(*address, *name))
	}
	log.Fatal(serve(*address, idle.Policy{
		Heartbeat:    idle.Heartbeat{Interval: *interval, Timeout: *timeout, Misses: *misses},
		WriteTimeout: 5 * time.Second,
	}))
}
