package simulation

import "github.com/idlewheel/idlewheel/idle"

// hooksOf returns hooks that call the methods of the owner of a life, those that it has.
func hooksOf(owner any) *idle.Hooks {
	l := lifeOf(owner)
	expire := owner.(interface{ Expire(*idle.TimeoutError) }).Expire
	h := &idle.Hooks{
		Ping:    func(any) error { return l.Ping() },
		OnDrain: func(any) { l.OnDrain() },
		Unsent:  func(any) int { return l.Unsent() },
		Expire:  func(_ any, err *idle.TimeoutError) { expire(err) },
	}
	if o, ok := owner.(interface{ OnTimeout(*idle.TimeoutError) bool }); ok {
		h.OnTimeout = func(_ any, err *idle.TimeoutError) bool { return o.OnTimeout(err) }
	}
	if o, ok := owner.(interface {
		Examine(idle.Reason) idle.SocketState
	}); ok {
		h.Probe = func(_ any, about idle.Reason) idle.SocketState { return o.Examine(about) }
	}
	if o, ok := owner.(interface{ OnEnd(*idle.TimeoutError) }); ok {
		h.OnEnd = func(_ any, err *idle.TimeoutError) { o.OnEnd(err) }
	}
	return h
}

// lifeOf returns the life that an owner has.
func lifeOf(owner any) *life { return owner.(interface{ self() *life }).self() }
