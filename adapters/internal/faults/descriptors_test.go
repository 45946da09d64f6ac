//go:build proof && linux

package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// descriptors is how many the server may have, its own few included.
const descriptors = 40

// serveScarce is a server that runs out of descriptors, and tells when.
func serveScarce() error {
	s, err := newNetServer(&scarceListener{Listener: listen()}, idle.Policy{IdleTimeout: limit}, nil, echo)
	if err != nil {
		return err
	}
	if err := limitDescriptors(descriptors); err != nil {
		return err
	}
	fmt.Println("listening", s.address)
	untilDismissed()
	return nil
}

func limitDescriptors(n uint64) error {
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}))
}

// A scarceListener tells once that descriptors have run out.
type scarceListener struct {
	net.Listener
	told atomic.Bool
}

func (l *scarceListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, syscall.EMFILE) && !l.told.Swap(true) {
		fmt.Println("exhausted")
	}
	return c, err
}

// A server whose descriptors are used up by silent connections cannot accept
// (EMFILE). Its timeouts go on, which frees descriptors, and then accepting does:
// everybody who waits is served in the end. Who is active is not closed.
func TestDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	c := spawn(t, "scarce")
	address := c.line(t, "listening ")
	live := talk(t, address, "hello")
	live.answered(t)
	var silent []net.Conn
	for range 2 * descriptors {
		silent = append(silent, dial(t, address))
	}
	c.line(t, "exhausted")
	begun := time.Now()
	late := dial(t, address)
	if _, err := io.WriteString(late, "hello"); err != nil {
		t.Fatal(err)
	}
	inTime(t, begun)
	// It was accepted after descriptors had run out, as it came then; all before
	// it are closed as they are silent.
	if _, err := io.ReadFull(late, make([]byte, len("hello"))); err != nil {
		t.Fatalf("no answer after descriptors had run out: %v", err)
	}
	for _, c := range silent {
		awaitEnd(t, c)
	}
	live.mustLive(t)
}

const (
	boundedDescriptors = 500
	boundedConns       = 450
)

// serveBounded is a gnet server with a bound, and with few descriptors.
func serveBounded() error {
	if err := limitDescriptors(boundedDescriptors); err != nil {
		return err
	}
	s := new(bounded)
	var err error
	if s.handler, err = idlegnet.Wrap(s, idle.Policy{IdleTimeout: time.Hour}, nil); err != nil {
		return err
	}
	go func() {
		untilDismissed()
		os.Exit(0)
	}()
	err = runGnet(s.handler, &s.address, gnet.WithMulticore(true), gnet.WithNumEventLoop(2), gnet.WithReusePort(true), gnet.WithLogger(noLog{}))
	fmt.Println("stopped", err)
	return nil
}

type bounded struct {
	gnet.BuiltinEventEngine
	address string
	handler *idlegnet.Handler
}

func (s *bounded) OnBoot(gnet.Engine) gnet.Action {
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

func (s *bounded) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	c.Write(b)
	return gnet.None
}

// TestBoundedGnet: gnet with WithReusePort doesn't run out of descriptors, although there are five
// times as many clients, who all come back at once. There are at most 16 and 1 % more connections
// than MaxConns, and each loop has one that it is opening or closing: 450 + 4 + 16 + 2 of 500.
// Without WithReusePort another goroutine accepts, ahead of the loops, and no bound is
// low enough.
func TestBoundedGnet(t *testing.T) {
	long(t)
	c := spawn(t, "bounded")
	address := c.line(t, "listening ")
	stopped := make(chan string, 1)
	go func() {
		if c.out.Scan() {
			stopped <- c.out.Text()
		}
	}()
	var over atomic.Bool
	var all sync.WaitGroup
	for range 5 * boundedConns {
		all.Go(func() { comeBack(address, &over) })
	}
	select {
	case what := <-stopped:
		t.Errorf("the server %s", what)
	case <-time.After(3 * time.Second):
	}
	over.Store(true)
	all.Wait()
	if !t.Failed() {
		talk(t, address, "hello").answered(t)
	}
}

// comeBack connects, says nothing, and connects again when it has been closed.
func comeBack(address string, over *atomic.Bool) {
	for !over.Load() {
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
