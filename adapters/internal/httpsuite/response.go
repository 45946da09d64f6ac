package httpsuite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// Large is a response that doesn't fit into the kernel's buffers of a loopback connection.
var Large = func() []byte {
	b := make([]byte, 16<<20)
	for i := range b {
		b[i] = byte(i>>8 ^ i>>16)
	}
	return b
}()

// largeFile returns the name of a file that contains Large.
func largeFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(name, Large, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// wantReset checks that a reset cuts the response. Without a reset, the kernel would keep the
// unread bytes for minutes.
func (c *Client) wantReset() time.Time {
	c.T.Helper()
	n, err := io.Copy(io.Discard, c.In)
	if n >= int64(len(Large)) || runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
		c.T.Errorf("after %d bytes the client got %v, want a reset", n, err)
	}
	return time.Now()
}

var ofResponses = []promise{

	// A slow client above the minimum rate gets the whole response, although that takes many
	// times the limits.
	{"SlowReaderLives", seesOutput, func(t *testing.T, u under) {
		if testing.Short() {
			t.Skip("takes seconds")
		}
		const limit = 700 * ms // with a small window, TCP itself pauses for 300 ms at a time
		name := largeFile(t)
		for kind, h := range map[string]func(Request){
			"written": func(r Request) { r.Write(Large) },
			"file":    func(r Request) { r.File(name) },
			"content": func(r Request) { r.Content(bytes.NewReader(Large), len(Large)) },
		} {
			t.Run(kind, func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, limit/4)
				to := All(limit)
				to.KeepAliveTimeout = Patience
				to.WriteRate = idle.Rate{BytesPerSecond: 100_000, Grace: limit}
				s := u.start(t, to, h)
				c := s.Dial()
				c.Narrow(512 << 10)
				begun := c.Send(Get("/large"))
				response := c.Response()
				var got bytes.Buffer
				var err error
				for err == nil {
					_, err = io.CopyN(&got, response.Body, int64(len(Large)/128))
					time.Sleep(25 * ms)
				}
				if !bytes.Equal(got.Bytes(), Large) || err != io.EOF {
					t.Errorf("got %d bytes, and %v after %v", got.Len(), err, time.Since(begun))
				}
				s.WantNone()
			})
		}
	}},

	// Bytes that a client has read of one response don't pay for its time in the next one.
	{"ResponseBeforeBuysNoTime", seesOutput, func(t *testing.T, u under) {
		var taken Gate
		to := Only(limit, "WriteRate")
		to.WriteRate = idle.Rate{BytesPerSecond: 256 << 10, Grace: limit} // the first response pays for a minute
		to.OnTimeout = taken.Keep                                         // so the first one may be read slowly
		s := u.start(t, to, func(r Request) { r.Write(Large) })
		c := s.Dial()
		c.Narrow(512 << 10)
		if got := c.Get("/large"); len(got) != len(Large) {
			t.Errorf("got %d bytes", len(got))
		}
		taken.Open()
		c.Send(Get("/large"))
		s.WantOnly(1, "request", idle.ReasonMinWriteRate)
		c.wantReset()
	}},

	// A stream of events may be silent for long, because then nobody waits.
	{"SilentStream", usual, func(t0 *testing.T, u under) {
		t := intime.Of(t0, limit/2)
		to := All(limit)
		to.HandshakeTimeout, to.KeepAliveTimeout = Patience, Patience
		to.WriteRate = idle.Rate{BytesPerSecond: 1000, Grace: limit}
		to.BodyRate = to.WriteRate
		s := u.start(t, to, func(r Request) {
			r.Stream(func(w io.Writer, flush func() error) {
				for i := range 3 {
					fmt.Fprintf(w, "data: %d\n\n", i)
					if err := flush(); err != nil {
						t.Errorf("after %d events: %v", i, err)
					}
					time.Sleep(3 * limit)
				}
			})
		})
		if got := s.Dial().Get("/"); len(got) != 27 {
			t.Errorf("got %q", got)
		}
		s.WantNone()
	}},
}
