package idlegnet_test

import (
	"fmt"
	"log"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

type echoServer struct{ gnet.BuiltinEventEngine }

func (*echoServer) OnTraffic(c gnet.Conn) gnet.Action {
	message, _ := c.Next(-1)
	c.Write(message)
	return gnet.None
}

func (*echoServer) OnClose(c gnet.Conn, err error) gnet.Action {
	log.Print(c.RemoteAddr(), ": ", err) // an *idle.TimeoutError if that was it
	return gnet.None
}

func ExampleWrap() {
	policy := idle.Policy{IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second}
	echo, err := idlegnet.Wrap(&echoServer{}, policy, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(gnet.Run(echo, "tcp://:9000", gnet.WithMulticore(true)))
}

// Wrap refuses a policy that makes no sense, with an error that says why.
func ExampleWrap_refused() {
	_, err := idlegnet.Wrap(&echoServer{}, idle.Policy{IdleTimeout: -time.Second}, nil)
	fmt.Println(err)
	_, err = idlegnet.Wrap(&echoServer{}, idle.Policy{
		Heartbeat: idle.Heartbeat{Interval: 30 * time.Second, Timeout: 10 * time.Second},
	}, nil)
	fmt.Println(err)
	// Output:
	// idle: IdleTimeout is -1s; use 0 to disable it
	// idle: the policy has an active Heartbeat (every 30s), but there is no Ping to call; set Ping, or use the Passive form
}
