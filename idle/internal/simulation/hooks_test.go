package simulation

import "github.com/idlewheel/idlewheel/idle"

// hooksOf returns the hooks that a life has.
func hooksOf(l *life) *idle.Hooks {
	h := &idle.Hooks{
		Ping:    func(any) error { return l.Ping() },
		OnDrain: func(any) { l.OnDrain() },
		Unsent:  func(any) int { return l.Unsent() },
		Expire:  func(_ any, err *idle.TimeoutError) { l.Expire(err) },
	}
	if l.keeper {
		h.OnTimeout = func(_ any, err *idle.TimeoutError) bool { return l.OnTimeout(err) }
	}
	if l.probed {
		h.Probe = func(_ any, about idle.Reason) idle.SocketState { return l.Examine(about) }
	}
	if l.leaver {
		h.OnEnd = func(_ any, err *idle.TimeoutError) { l.OnEnd(err) }
	}
	return h
}
