package faults

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

func init() { children["bounded"] = serveBounded }

const (
	boundedDescriptors = 500
	boundedConns       = 450
	boundedLoops       = 2
)

// serveBounded is a gnet server with a bound, and with few descriptors.
func serveBounded() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: boundedDescriptors, Max: boundedDescriptors}); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	server := &boundedServer{}
	h, err := idlegnet.Wrap(server, idle.Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		return err
	}
	server.handler = h
	go func() {
		untilDismissed()
		os.Exit(0)
	}()
	err = runGnet(h, &server.address, gnet.WithMulticore(true), gnet.WithNumEventLoop(boundedLoops), gnet.WithReusePort(true), gnet.WithLogger(noLog{}))
	fmt.Println("stopped", err)
	return nil
}

type boundedServer struct {
	gnet.BuiltinEventEngine
	address string
	handler *idlegnet.Handler
}

func (s *boundedServer) OnBoot(gnet.Engine) gnet.Action {
	if err := s.handler.Tracker().SetCapacity(idle.Capacity{MaxConns: boundedConns, MinIdle: 10 * time.Millisecond}); err != nil {
		fmt.Println(err)
	}
	go func() {
		for {
			if c, err := net.Dial("tcp", s.address); err == nil {
				c.Close()
				break
			}
		}
		fmt.Println("listening", s.address)
	}()
	return gnet.None
}

func (s *boundedServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	gnetEcho(c, b)
	return gnet.None
}
