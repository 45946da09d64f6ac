package admit_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/admit"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A client may have one connection, so its second one is closed.
func ExampleGate_Listener() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	gate, err := admit.New(admit.Limits{PerKey: 1})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(gate.Listener(bare), idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(conn, conn); conn.Close() }()
		}
	}()

	for range 2 {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		fmt.Fprint(client, "hello")
		_, err = io.ReadFull(client, make([]byte, 5))
		fmt.Println("answered:", err == nil)
	}
	fmt.Printf("%+v\n", gate.Stats())
	// Output:
	// answered: true
	// answered: false
	// {Open:1 PerKey:1 New:0 NewPerKey:0}
}

// A gatedServer is a gnet server with a gate.
type gatedServer struct {
	gnet.BuiltinEventEngine
	gate *admit.Gate
}

func (s *gatedServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	leave, err := s.gate.Enter(c.RemoteAddr())
	if errors.Is(err, admit.ErrRefused) {
		return nil, gnet.Close
	}
	c.SetContext(leave)
	return nil, gnet.None
}

func (s *gatedServer) OnClose(c gnet.Conn, err error) gnet.Action {
	if leave, ok := c.Context().(func()); ok { // it wasn't refused
		leave()
	}
	return gnet.None
}

func ExampleGate_Enter() {
	gate, err := admit.New(admit.Limits{PerKey: 100, New: admit.Quota{PerSecond: 1000}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := idlegnet.Wrap(&gatedServer{gate: gate}, idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(gnet.Run(server, "tcp://:9000", gnet.WithMulticore(true)))
}
