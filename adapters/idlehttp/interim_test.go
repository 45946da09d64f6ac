package idlehttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestTooLargeBodyIsNotAwaited has a client send a part of a body that is too large. It gets
// the response at once, as from the bare server, and not after the rest, or a timeout.
func TestTooLargeBodyIsNotAwaited(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10)); err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			}
		})
		c := s.Dial()
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("a", 50))
		if r := c.Response(); r.StatusCode != http.StatusRequestEntityTooLarge || !r.Close {
			t.Errorf("%s, asks to close: %v", r.Status, r.Close)
		}
	})
}

const expecting = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"

// interims are handlers that send interim responses, and what those are.
var interims = map[string]struct {
	request string
	handle  http.HandlerFunc
	want    []string
}{
	"Continue":   {expecting, func(w http.ResponseWriter, r *http.Request) { r.Body.Read(make([]byte, 1)) }, []string{"HTTP/1.1 100 Continue"}},
	"EarlyHints": {httpsuite.Post(10), func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, []string{"HTTP/1.1 103 Early Hints"}},
	"OldClient": {strings.Replace(httpsuite.Post(10), "HTTP/1.1", "HTTP/1.0", 1),
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, []string{"HTTP/1.0 103 Early Hints"}},
	"Both": {expecting, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		r.Body.Read(make([]byte, 1))
	}, []string{"HTTP/1.1 103 Early Hints", "HTTP/1.1 100 Continue"}},
	"Controller": {expecting, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		rc.SetWriteDeadline(time.Now().Add(patience))
		r.Body.Read(make([]byte, 1))
	}, []string{"HTTP/1.1 100 Continue"}},
}

// TestTimeoutAfterInterim has a body stop after interim responses, which is answered; or HandlerTimeout pass when the final
// response has begun after them, which isn't.
func TestTimeoutAfterInterim(t *testing.T) {
	for name, of := range interims {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, secure bool) {
				for _, hangs := range []bool{false, true} {
					s := startInMemory(t, secure, httpsuite.Only(300*ms, map[bool]string{false: "BodyTimeout", true: "HandlerTimeout"}[hangs]), func(w http.ResponseWriter, r *http.Request) {
						of.handle(w, r)
						if !hangs {
							io.Copy(io.Discard, r.Body)
							return
						}
						for err := error(nil); err == nil; time.Sleep(10 * ms) {
							err = http.NewResponseController(w).Flush()
							io.WriteString(w, "more")
						}
					})
					c := s.Dial()
					c.Send(of.request)
					for _, want := range of.want {
						c.Line(want + "\r")
						c.Line("\r")
					}
					if !hangs {
						c.Refused(http.StatusRequestTimeout)
						continue
					}
					c.Send("hello, you")
					got, err := io.ReadAll(c.In)
					if !httpsuite.IsEnd(err) || !strings.Contains(string(got[:min(len(got), 17)]), " 200 OK\r\n") || strings.Count(string(got), "HTTP/1.") != 1 {
						t.Errorf("got %q, %v", got, err)
					}
				}
			})
		})
	}
}
