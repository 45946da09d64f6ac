// Command gnet-echo is gnet's echo server. It closes connections that are silent, or that don't read
// what they're sent.
//
//	go run ./examples/gnet-echo
//	nc 127.0.0.1 9002       # type nothing, and the server disconnects you after 10 seconds
//
// Ctrl-C or SIGTERM closes the connections one after the other, within 5 seconds, and then ends the server.
package main

import (
	"context"
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

// OnClose gets an *idle.TimeoutError if a limit has ended the connection.
func (*echoServer) OnClose(c gnet.Conn, err error) gnet.Action {
	log.Print(c.RemoteAddr(), " is gone: ", err)
	return gnet.None
}

func main() {
	echo, err := idlegnet.Wrap(&echoServer{}, idle.Policy{IdleTimeout: 10 * time.Second, WriteTimeout: 5 * time.Second}, nil)
	if err != nil {
		log.Fatal(err)
	}
	go shutDown(echo)
	if err := gnet.Run(echo, "tcp://127.0.0.1:9002", gnet.WithMulticore(true)); err != nil {
		log.Fatal(err)
	}
}

// shutDown waits for a signal, drains the connections, and stops the engine.
func shutDown(h *idlegnet.Handler) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	if err := h.Shutdown(context.Background(), idle.Drain{Duration: 5 * time.Second, ForceAfter: 10 * time.Second}); err != nil {
		log.Print(err)
	}
}
