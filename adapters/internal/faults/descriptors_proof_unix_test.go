//go:build proof && unix

package faults

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

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
