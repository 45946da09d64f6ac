package hook_test

import (
	"net"

	"crypto/tls"
)

func init() {
	if suitesWrap == "" {
		return
	}
	tls.SuitesHook = func(l net.Listener) net.Listener {
		return wrapAny(l)
	}
}
