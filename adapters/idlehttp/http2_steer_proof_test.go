//go:build proof

package idlehttp

import (
	"context"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// SetLimits refuses requests that came another way, or are over.
func TestSetLimitsOfOthers(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	httpsuite.WantError(t, SetLimits(r, RequestLimits{}), "idlehttp: SetLimits: ", "did not arrive")
	served := make(chan *http.Request, 1)
	s := start(t, false, httpsuite.Only(300*ms, "KeepAliveTimeout"), func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		httpsuite.WantError(t, SetLimits(r.WithContext(ctx), RequestLimits{}), "idlehttp: SetLimits: ", "cancelled")
		served <- r
	})
	c := s.Dial()
	begun := c.Send(httpsuite.Get("/"))
	c.Want(http.StatusOK)
	httpsuite.WantError(t, SetLimits(httpsuite.Receive(t, served), RequestLimits{BodyTimeout: httplimits.Off}), "has ended")
	httpsuite.NotBefore(t, c.WantClosed(), begun, 300*ms)
	s.WantOnly(1, "keep-alive", idle.ReasonPhase)
}
