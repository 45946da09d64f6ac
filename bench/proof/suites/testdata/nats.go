package hook_test

import (
	"net"

	"github.com/nats-io/nats-server/v2/server"
)

func init() {
	server.SuitesHook = func(l net.Listener, err error) (net.Listener, error) {
		if err != nil {
			return nil, err
		}
		return wrapAny(l), nil
	}
}
