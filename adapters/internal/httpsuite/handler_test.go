package httpsuite

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

var ofHandlers = each("HandlerTimeoutWithinTheResponse", usual, map[string]string{"get": Get("/"), "expect": expecting}, lateWithinTheResponse)

// lateWithinTheResponse tests that there's no 503 after the response has begun: the connection just
// ends. That holds behind 100 Continue too, which doesn't begin the response.
func lateWithinTheResponse(t *testing.T, u under, _, text string) {
	ended := make(chan error, 1)
	s := u.start(t, Only(limit, "HandlerTimeout"), func(r request) {
		io.Copy(io.Discard, r.Body())
		r.Stream(func(w io.Writer, flush func() error) {
			var err error
			for begun := time.Now(); err == nil && time.Since(begun) < Patience; time.Sleep(20 * ms) {
				io.WriteString(w, "more")
				err = flush()
			}
			ended <- err
		})
	})
	c := s.Dial()
	begun := c.Send(text)
	response := c.Response()
	if response.StatusCode == http.StatusContinue {
		c.Send("0123456789")
		response = c.Response()
	}
	body, err := io.ReadAll(response.Body)
	if err == nil || !IsEnd(err) || response.StatusCode != http.StatusOK || strings.ReplaceAll(string(body), "more", "") != "" {
		t.Fatalf("got %s, %q and %v, want what had been written, and an end before its time", response.Status, body, err)
	}
	NotBefore(t, time.Now(), begun, limit)
	if err := Receive(t, ended); err == nil {
		t.Error("the writer has not been told")
	}
	s.WantOnly(1, "request", idle.ReasonPhase)
}
