package idlenet_test

import (
	"io"
	"net"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/internal/smoke"
	"github.com/idlewheel/idlewheel/idle"
)

func TestSmoke(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"} {
		t.Run(network, func(t *testing.T) {
			bare, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			ln, err := idlenet.Wrap(bare, idle.Policy{IdleTimeout: smoke.Limit}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go func() { defer c.Close(); io.Copy(c, c) }()
				}
			}()
			smoke.Run(t, network, ln.Addr().String(), smoke.Echo)
		})
	}
}
