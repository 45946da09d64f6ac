package idlegnet

import (
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/smoke"
	"github.com/idlewheel/idlewheel/idle"
)

func TestSmoke(t *testing.T) {
	for network, address := range map[string]string{"tcp": "tcp://127.0.0.1:0", "unix": "unix://"} {
		t.Run(network, func(t *testing.T) {
			s := serve(t, &handler{at: []string{address}}, idle.Policy{IdleTimeout: smoke.Limit}, nil)
			_, address, _ := strings.Cut(s.address, "://")
			smoke.Run(t, network, address, smoke.Echo)
		})
	}
}
