//go:build proof

package idlehttp

import (
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestServesAlready: the hooks of a server cannot be replaced while it uses them.
func TestServesAlready(t *testing.T) {
	s := start(t, false, Timeouts{}, echo)
	c := s.Dial()
	c.Get("/")
	_, err := Wrap(s.server, httpsuite.Listen(t), Timeouts{})
	httpsuite.WantError(t, err, "idlehttp: the server serves already")
}
