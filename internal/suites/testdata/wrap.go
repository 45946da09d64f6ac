package hook_test

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// The environment by which internal/suites tells what to do: SUITES_WRAP is empty for
// a bare run, adapter for one with timeouts, or race for one under the race detector:
// Serve may be called on a goroutine of its own, and then changing the server is a race.
// To the file SUITES_LOG goes a line for each listener.
var (
	suitesWrap = os.Getenv("SUITES_WRAP")
	suitesLog  = os.Getenv("SUITES_LOG")
)

// generous is a limit that no test reaches.
const generous = time.Hour

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
	how := "by idlenet"
	if suitesWrap != "race" {
		inner, err := adapter(l)
		if err == nil {
			note("by the adapter for HTTP")
			steer(inner.Tracker())
			return &wrapped{inner}
		}
		how += ", as " + err.Error()
	}
	if fmt.Sprintf("%T", l) == "*tls.listener" {
		return l
	}
	note(how)
	return withIdlenet(l)
}

func withIdlenet(l net.Listener) net.Listener {
	inner, err := idlenet.Wrap(l, idle.Policy{IdleTimeout: generous, WriteTimeout: generous}, nil)
	if err != nil {
		panic(err)
	}
	steer(inner.Tracker())
	return &wrapped{inner}
}

// note tells internal/suites how a listener was wrapped.
func note(how string) {
	f, err := os.OpenFile(suitesLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(how + "\n"); err != nil {
		panic(err)
	}
}
