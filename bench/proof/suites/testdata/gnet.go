package hook_test

import (
	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
)

func init() {
	gnet.SuitesHook = func(h gnet.EventHandler) gnet.EventHandler {
		inner, err := idlegnet.Wrap(h, policy, nil)
		if err != nil {
			return h
		}
		note()
		return inner
	}
}
