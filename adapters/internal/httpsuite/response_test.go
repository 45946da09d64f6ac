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

	"github.com/idlewheel/idlewheel/idle"
)

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

var ofResponses = append(responses, each("SlowReaderLives", usual, map[string]func(t *testing.T, r request){
	"written": func(_ *testing.T, r request) { r.Write(Large) },
	"file":    func(t *testing.T, r request) { r.File(largeFile(t)) },
	"content": func(_ *testing.T, r request) { r.Content(bytes.NewReader(Large), len(Large)) },
}, slowReader)...)

// slowReader tests that a slow client above the minimum rate gets the whole response, although that takes many
// times the limits.
func slowReader(t *testing.T, u under, _ string, respond func(t *testing.T, r request)) {
	if testing.Short() {
		t.Skip("reads 16 MB")
	}
	to := All(limit)
	to.KeepAliveTimeout = Patience
	to.WriteRate = idle.Rate{BytesPerSecond: 100_000, Grace: limit}
	s := u.start(t, to, func(r request) { respond(t, r) })
	c := s.Dial()
	begun := c.Send(Get("/large"))
	response := c.Response()
	var got bytes.Buffer
	var err error
	for err == nil {
		_, err = io.CopyN(&got, response.Body, int64(len(Large)/128))
		time.Sleep(limit / 2)
	}
	if !bytes.Equal(got.Bytes(), Large) || err != io.EOF {
		t.Errorf("got %d bytes, and %v after %v", got.Len(), err, time.Since(begun))
	}
	s.WantNone()
}

var responses = []promise{
	// Bytes that a client has read of one response don't pay for its time in the next one.
	{"ResponseBeforeBuysNoTime", usual, func(t *testing.T, u under) {
		to := Only(limit, "WriteRate")
		to.WriteRate = idle.Rate{BytesPerSecond: 256 << 10, Grace: limit} // the first response pays for a minute
		s := u.start(t, to, func(r request) { r.Write(Large) })
		c := s.Dial()
		if got := c.Get("/large"); len(got) != len(Large) {
			t.Errorf("got %d bytes", len(got))
		}
		c.Send(Get("/large"))
		s.WantOnly(1, "request", idle.ReasonMinWriteRate)
		c.wantReset()
	}},

	// A stream of events may be silent for long, because then nobody waits.
	{"SilentStream", usual, func(t *testing.T, u under) {
		to := All(limit)
		to.HandshakeTimeout, to.KeepAliveTimeout = Patience, Patience
		to.WriteRate = idle.Rate{BytesPerSecond: 1000, Grace: limit}
		to.BodyRate = to.WriteRate
		s := u.start(t, to, func(r request) {
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
