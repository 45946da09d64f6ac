//go:build proof

package idlefasthttp

import (
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestServesAlready: the hooks of a server cannot be replaced while it uses them.
func TestServesAlready(t *testing.T) {
	s := start(t, false, &fasthttp.Server{}, Timeouts{})
	c := s.Dial()
	c.Get("/")
	_, err := Wrap(s.fast, httpsuite.Listen(t), Timeouts{})
	httpsuite.WantError(t, err, "idlefasthttp: the server serves already")
}
