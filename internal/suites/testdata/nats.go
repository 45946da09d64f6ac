package hook_test

import (
	"net"

	"github.com/nats-io/nats-server/v2/server"
)

func init() {
	if suitesWrap == "" {
		return
	}
	server.SuitesHook = func(l net.Listener) net.Listener {
		note("listener", "idlenet")
		return wrapAny(l)
	}
}
