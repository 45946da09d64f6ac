//go:build unix

package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// A server whose descriptors are used up by silent connections cannot accept
// (EMFILE). Its timeouts go on, which frees descriptors, and then accepting does:
// everybody who waits is served in the end. Who is active is not closed.
func TestDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	c, err := spawn(t, "scarce", nil)
	if err != nil {
		t.Fatal(err)
	}
	first := c.line(t, "")
	address, ok := strings.CutPrefix(first, "listening ")
	if !ok {
		t.Skipf("the child cannot limit its descriptors: %s", first)
	}
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
	answer := make([]byte, len("hello"))
	if _, err := io.ReadFull(late, answer); err != nil {
		t.Fatalf("no answer after descriptors had run out: %v", err)
	}
	for _, c := range silent {
		awaitEnd(t, c)
	}
	live.mustLive(t)
}
