package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// With EnableFullDuplex a handler of HTTP/1 reads the body while it writes the response. The
// body's limits still apply to its Reads: a client may pause for less than BodyTimeout for as
// long as it likes, and a client that pauses for longer is cut, without a 408 within the
// response. SetLimits turns them off for a request.
func TestFullDuplex(t *testing.T) {
	const limit, rounds = time.Second, 20
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		for _, unlimited := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				failed := make(chan error, 1)
				s := startInMemory(t, secure, httpsuite.Only(limit, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
					rc := http.NewResponseController(w)
					if err := rc.EnableFullDuplex(); err != nil {
						t.Error(err)
					}
					if unlimited {
						if err := SetLimits(r, RequestLimits{BodyTimeout: Off, BodyRate: idle.Rate{BytesPerSecond: Off}}); err != nil {
							t.Error(err)
						}
					}
					rc.Flush()
					b := make([]byte, 4)
					for {
						if _, err := io.ReadFull(r.Body, b); err != nil {
							failed <- err
							return
						}
						w.Write(b)
						rc.Flush()
					}
				})
				c := s.Dial()
				c.Send(httpsuite.Post(4*rounds + 8))
				response := c.Response()
				b := make([]byte, 4)
				exchange := func() error {
					c.Send("ping")
					_, err := io.ReadFull(response.Body, b)
					return err
				}
				for i := range rounds {
					if err := exchange(); err != nil {
						t.Fatalf("round %d: %v", i, err)
					}
					time.Sleep(limit / 2)
				}
				if unlimited {
					time.Sleep(3 * limit)
					if err := exchange(); err != nil {
						t.Errorf("after a pause without a limit: %v", err)
					}
					c.Close()
					<-failed
					return
				}
				rest, err := io.ReadAll(response.Body)
				if err == nil || len(rest) > 0 {
					t.Errorf("after a pause the response goes on with %q, %v", rest, err)
				}
				var timeout *idle.TimeoutError
				if err := <-failed; !errors.As(err, &timeout) || timeout.Setting != "BodyTimeout" {
					t.Errorf("the handler got %v, want BodyTimeout", err)
				}
				s.WantOnly(1, "request", idle.ReasonRead)
			})
		}
	})
}
