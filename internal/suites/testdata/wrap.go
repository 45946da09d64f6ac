package hook_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// The environment by which internal/suites tells what to do: SUITES_WRAP is empty for
// a bare run, adapter for one with timeouts, or race for one under the race detector:
// Serve may be called on a goroutine of its own, and then changing the server is a race.
// To the file SUITES_LOG goes a line for each listener or connection.
var (
	suitesWrap = os.Getenv("SUITES_WRAP")
	suitesLog  = os.Getenv("SUITES_LOG")
)

// generous is a limit that no test reaches.
const generous = time.Hour

var (
	policy   = idle.Policy{IdleTimeout: generous, WriteTimeout: generous}
	timeouts = httplimits.Timeouts{
		HandshakeTimeout: generous,
		HeaderTimeout:    generous,
		BodyTimeout:      generous,
		BodyRate:         idle.Rate{BytesPerSecond: httplimits.Off},
		HandlerTimeout:   generous,
		WriteTimeout:     generous,
		WriteRate:        idle.Rate{BytesPerSecond: httplimits.Off},
		KeepAliveTimeout: generous,
		StreamTimeout:    generous,
	}
)

// A wrapped listener is one that has got timeouts.
type wrapped struct{ net.Listener }

// tracked is what a listener of each adapter has.
type tracked interface {
	net.Listener
	Tracker() *idle.Tracker
}

// wrap returns l with timeouts: with those of an adapter for HTTP or, if that refuses
// the server, those of idlenet. These do not see TLS, and have to be below it; so a
// listener that speaks TLS is left alone then.
func wrap(l net.Listener, adapter func(net.Listener) (tracked, error)) net.Listener {
	if l == nil {
		return l
	}
	if w, ok := l.(*wrapped); ok {
		return w
	}
	how := "idlenet"
	if suitesWrap != "race" {
		inner, err := adapter(l)
		if err == nil {
			note("listener", "the adapter for HTTP")
			steer(inner.Tracker())
			return &wrapped{inner}
		}
		how += ", as " + err.Error()
	}
	if fmt.Sprintf("%T", l) == "*tls.listener" {
		return l
	}
	note("listener", how)
	return wrapAny(l)
}

// wrapAny returns l with the timeouts of idlenet.
func wrapAny(l net.Listener) net.Listener {
	inner, err := idlenet.Wrap(l, policy, nil)
	if err != nil {
		panic(err)
	}
	steer(inner.Tracker())
	return &wrapped{inner}
}

// wrapConn returns nc with the timeouts of idlenet, by a tracker of its own. A connection that
// has timeouts already is left alone.
func wrapConn(nc net.Conn) net.Conn {
	t, err := idle.New(policy, nil)
	if err != nil {
		panic(err)
	}
	defer t.CloseWhenEmpty()
	c, err := idlenet.WrapConn(nc, t, nil)
	if errors.Is(err, idlenet.ErrWrapped) {
		return nc
	}
	if err != nil {
		panic(err)
	}
	note("connection", "idlenet")
	steer(t)
	return c
}

// note tells internal/suites what was wrapped by what.
func note(what, how string) {
	f, err := os.OpenFile(suitesLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(what + " by " + how + "\n"); err != nil {
		panic(err)
	}
}
