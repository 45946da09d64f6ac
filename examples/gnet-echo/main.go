// Command gnet-echo is gnet's own echo server, with connections that are closed
// when they are silent, or do not read what they are sent.
//
//	go run ./examples/gnet-echo
//	nc localhost 9002
//
// Ctrl-C or SIGTERM ends the connections over some seconds, and then the server.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

type echoServer struct {
	gnet.BuiltinEventEngine
}

func (*echoServer) OnTraffic(c gnet.Conn) gnet.Action {
	buf, _ := c.Next(-1)
	c.Write(buf)
	return gnet.None
}

// OnClose is here to show the error: a *idle.TimeoutError if that was it.
func (*echoServer) OnClose(c gnet.Conn, err error) gnet.Action {
	log.Print(c.RemoteAddr(), " is gone: ", err)
	return gnet.None
}

func main() {
	address := flag.String("address", "127.0.0.1:9002", "where to listen")
	multicore := flag.Bool("multicore", false, "run an event loop on each core")
	silence := flag.Duration("idle", 10*time.Second, "silence after which a connection is closed")
	over := flag.Duration("drain", 5*time.Second, "time over which connections are closed at the end")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/gnet-echo [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	echo, err := idlegnet.Wrap(&echoServer{}, idle.Policy{IdleTimeout: *silence, WriteTimeout: 5 * time.Second}, nil)
	if err != nil {
		log.Fatal(err)
	}
	go shutDown(echo, *over)
	if err := gnet.Run(echo, "tcp://"+*address, gnet.WithMulticore(*multicore)); err != nil {
		log.Fatal(err)
	}
}

// shutDown waits for a signal, closes the connections one after another, and stops the
// engine.
func shutDown(h *idlegnet.Handler, over time.Duration) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	if err := h.Shutdown(context.Background(), idle.Drain{Duration: over, ForceAfter: 2*over + time.Second}); err != nil {
		log.Print(err)
	}
}
