package hook_test

import (
	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
)

func init() {
	if suitesWrap == "" {
		return
	}
	gnet.SuitesHook = func(h gnet.EventHandler) gnet.EventHandler {
		inner, err := idlegnet.Wrap(h, policy, nil)
		if err != nil {
			return h
		}
		note("handler", "idlegnet")
		return steered{inner}
	}
}

// A steered handler has a tracker from OnBoot on.
type steered struct{ *idlegnet.Handler }

func (h steered) OnBoot(eng gnet.Engine) gnet.Action {
	action := h.Handler.OnBoot(eng)
	steer(h.Tracker())
	return action
}
