package idlegnet

import (
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/smoke"
	"github.com/idlewheel/idlewheel/idle"
)

func TestSmoke(t *testing.T) {
	for network, addresses := range map[string][]string{"tcp": tcp(), "unix": {"unix://"}} {
		t.Run(network, func(t *testing.T) {
			s := serve(t, &handler{}, idle.Policy{IdleTimeout: smoke.Limit}, nil, addresses)
			_, address, _ := strings.Cut(s.address, "://")
			smoke.Run(t, network, address, smoke.Echo)
		})
	}
}
