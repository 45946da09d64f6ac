package hook_test

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// SUITES_WRAP is empty for a bare run. To the file SUITES_LOG goes a line for each listener,
// connection or handler that has got timeouts.
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

// wrap returns l with timeouts: with those of an adapter for HTTP or, if that refuses the
// server, those of idlenet. These do not see TLS, and have to be below it, so a listener
// that speaks TLS is left alone then.
func wrap(l net.Listener, adapter func(net.Listener) (net.Listener, error)) net.Listener {
	if l == nil {
		return l
	}
	if w, ok := l.(*wrapped); ok {
		return w
	}
	if inner, err := adapter(l); err == nil {
		note("the adapter for HTTP")
		return &wrapped{inner}
	}
	if fmt.Sprintf("%T", l) == "*tls.listener" {
		return l
	}
	return wrapAny(l)
}

// wrapAny returns l with the timeouts of idlenet.
func wrapAny(l net.Listener) net.Listener {
	inner, err := idlenet.Wrap(l, policy, nil)
	if err != nil {
		panic(err)
	}
	note("idlenet")
	return &wrapped{inner}
}

// tracker is for connections without a listener.
var tracker = sync.OnceValues(func() (*idle.Tracker, error) { return idle.New(policy, nil) })

// wrapConn returns nc with the timeouts of idlenet.
func wrapConn(nc net.Conn) net.Conn {
	t, err := tracker()
	if err != nil {
		panic(err)
	}
	if nc, err = idlenet.WrapConn(nc, t, nil); err != nil {
		panic(err)
	}
	note("idlenet")
	return nc
}

// note tells what was wrapped by what.
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
