package idlehttp

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestAnsweredBeforeTheBody has a handler that answers when it has read a part of the body. The
// rest never comes. The client gets the handler's answer. A 408 or 503 would make it repeat a
// request that has been carried out.
func TestAnsweredBeforeTheBody(t *testing.T) {
	const limit = time.Second
	for _, name := range []string{"BodyTimeout", "HandlerTimeout"} {
		for how, write := range map[string]func(http.ResponseWriter){
			"header":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) },
			"body":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated); io.WriteString(w, "placed") },
			"returned": func(w http.ResponseWriter) {},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				inBubbles(t, func(t *testing.T, secure bool) {
					s := startInMemory(t, secure, httpsuite.Only(limit, name), func(w http.ResponseWriter, r *http.Request) {
						io.ReadFull(r.Body, make([]byte, 3))
						write(w)
					})
					c := s.Dial()
					c.Send(httpsuite.Post(100) + "abc")
					begun, want := time.Now(), http.StatusCreated
					if how == "returned" {
						want = http.StatusOK
					}
					if r := c.Response(); r.StatusCode != want || time.Since(begun) > 2*limit {
						t.Errorf("%s after %v", r.Status, time.Since(begun))
					}
					c.Close()
				})
			})
		}
	}
}

// TestErrorPageOfTheServer has a handler whose read of the body has failed call the server's Handler for its answer.
func TestErrorPageOfTheServer(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, httpsuite.Only(time.Second, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/error" {
				w.WriteHeader(http.StatusTeapot)
			} else if _, err := io.ReadAll(r.Body); err != nil {
				page := r.Clone(r.Context())
				page.URL.Path = "/error"
				r.Context().Value(http.ServerContextKey).(*http.Server).Handler.ServeHTTP(w, page)
			}
		})
		c := s.Dial()
		c.Send(httpsuite.Post(100) + "abc")
		if r := c.Response(); r.StatusCode != http.StatusTeapot {
			t.Error(r.Status)
		}
		c.Close()
	})
}
