//go:build unix

package faults

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func init() { children["scarce"] = serveScarce }

// descriptors is how many the server may have, its own few included.
const descriptors = 40

// serveScarce is a server that runs out of descriptors, and tells when.
func serveScarce() error {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ln, err := idlenet.Wrap(&scarceListener{Listener: bare}, idle.Policy{IdleTimeout: limit}, nil)
	if err != nil {
		return err
	}
	defer ln.Tracker().Close()
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return err
	}
	r.Cur = descriptors
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	fmt.Println("listening", ln.Addr())
	s := &netServer{tracker: ln.Tracker(), ended: make(chan error, 1000)}
	go s.accept(ln, echo)
	untilDismissed()
	return nil
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
