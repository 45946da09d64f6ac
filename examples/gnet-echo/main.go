// Command gnet-echo is gnet's own echo server, with connections that are closed
// when they are silent, or do not read what they are sent.
//
//	go run ./examples/gnet-echo
//	nc localhost 9002
package main

import (
	"flag"
	"fmt"
	"log"
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
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./examples/gnet-echo [flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	echo, err := idlegnet.Wrap(&echoServer{}, idle.Policy{IdleTimeout: *silence, WriteTimeout: 5 * time.Second}, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(gnet.Run(echo, "tcp://"+*address, gnet.WithMulticore(*multicore)))
}
