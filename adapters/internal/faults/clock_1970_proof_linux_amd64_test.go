//go:build proof

package faults

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// On a machine that was never told the time, and believes in 1970, an upload to
// fasthttp may take longer than HeaderTimeout, and is closed when it stops: that
// its header was read is told by a deadline 250 years ahead, which must be
// understood from any year.
func TestUploadIn1970(t *testing.T) {
	long(t)
	t.Parallel()
	c := spawnWithClock(t, "1970")
	address := c.line(t, "listening ")
	if got := upload(t, address); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("a slow upload got %q", got)
	}
	u := dial(t, address)
	if _, err := io.WriteString(u, "POST / HTTP/1.1\r\nHost: faults\r\nContent-Length: 20\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, u)
}

// upload sends a body for twice the header's limit, and returns the answer.
func upload(t *testing.T, address string) string {
	t.Helper()
	const pieces = 20
	u := dial(t, address)
	fmt.Fprintf(u, "POST / HTTP/1.1\r\nHost: faults\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", pieces)
	for range pieces {
		time.Sleep(limit / 10)
		u.Write([]byte{'x'}) // if that fails, the answer tells
	}
	u.SetReadDeadline(time.Now().Add(patience))
	answer, _ := io.ReadAll(u)
	return string(answer)
}
