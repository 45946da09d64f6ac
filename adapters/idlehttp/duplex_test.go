package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// With EnableFullDuplex a handler of HTTP/1 reads the body while it writes the response. Once the response has begun, client
// and handler may be in a conversation, so either may be silent for any time.
func TestFullDuplex(t *testing.T) {
	const limit, rounds = time.Second, 20
	inBubbles(t, func(t *testing.T, secure bool) {
		ended := make(chan error, 1)
		s := startInMemory(t, secure, httpsuite.Only(limit, "BodyTimeout", "BodyRate"), func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			rc.Flush()
			b := make([]byte, 4)
			for {
				if _, err := io.ReadFull(r.Body, b); err != nil {
					ended <- err
					return
				}
				w.Write(b)
				rc.Flush()
			}
		})
		c := s.Dial()
		c.Send(httpsuite.Post(4 * rounds))
		response := c.Response()
		b := make([]byte, 4)
		for i := range rounds {
			time.Sleep(3 * limit)
			c.Send("ping")
			if _, err := io.ReadFull(response.Body, b); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
			t.Errorf("the response goes on with %q, %v", rest, err)
		}
		if err := <-ended; err != io.EOF {
			t.Errorf("the handler got %v", err)
		}
		s.WantNone()
	})
}

// Before the response has begun, a body in full duplex is limited like any other.
func TestFullDuplexBeforeTheResponse(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		ended := make(chan error, 1)
		s := startInMemory(t, secure, httpsuite.Only(time.Second, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			_, err := io.ReadAll(r.Body)
			ended <- err
		})
		c := s.Dial()
		c.Send(httpsuite.Post(8) + "ping")
		if status := c.Response().StatusCode; status != http.StatusRequestTimeout {
			t.Errorf("the answer is %d", status)
		}
		var timeout *idle.TimeoutError
		if err := <-ended; !errors.As(err, &timeout) || timeout.Setting != "BodyTimeout" {
			t.Errorf("the handler got %v, want BodyTimeout", err)
		}
		s.WantOnly(1, "request", idle.ReasonRead)
	})
}
