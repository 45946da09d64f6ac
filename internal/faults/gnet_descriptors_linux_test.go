package faults

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

func init() { children["bounded"] = serveBounded }

const (
	boundedDescriptors = 500
	boundedConns       = 400
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

// TestBoundedGnet: gnet with WithReusePort doesn't run out of descriptors, although there are five
// times as many clients, who all come back at once. A loop has at most one connection above
// MaxConns, and evictions under way for a tenth of its connections and 16: 400 + 40 + 2 * 17
// of 500. Without WithReusePort another goroutine accepts, ahead of the loops, and no bound is
// low enough.
func TestBoundedGnet(t *testing.T) {
	long(t)
	c, err := spawn(t, "bounded", nil)
	if err != nil {
		t.Fatal(err)
	}
	address := c.line(t, "listening ")
	stopped := make(chan string, 1)
	go func() {
		if c.out.Scan() {
			stopped <- c.out.Text()
		}
	}()
	over, all := make(chan struct{}), sync.WaitGroup{}
	for range 5 * boundedConns {
		all.Go(func() { comeBack(address, over) })
	}
	select {
	case what := <-stopped:
		t.Errorf("the server %s", what)
	case <-time.After(3 * time.Second):
	}
	close(over)
	all.Wait()
	if !t.Failed() {
		talk(t, address, "hello").answered(t)
	}
}

// comeBack connects, says nothing, and connects again when it has been closed.
func comeBack(address string, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		c.SetReadDeadline(time.Now().Add(time.Second))
		c.Read(make([]byte, 1))
		c.Close()
	}
}
