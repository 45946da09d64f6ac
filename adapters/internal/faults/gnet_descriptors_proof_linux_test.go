//go:build proof

package faults

import (
	"net"
	"sync"
	"testing"
	"time"
)

// TestBoundedGnet: gnet with WithReusePort doesn't run out of descriptors, although there are five
// times as many clients, who all come back at once. There are at most 16 and 1 % more connections
// than MaxConns, and each loop has one that it is opening or closing: 450 + 4 + 16 + 2 of 500.
// Without WithReusePort another goroutine accepts, ahead of the loops, and no bound is
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
