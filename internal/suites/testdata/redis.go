package hook_test

import (
	"net"

	"github.com/alicebob/miniredis/v2/server"
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
