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
	if _, twice := l.(*wrapped); twice || l == nil {
		return l
	}
	if inner, err := adapter(l); err == nil {
		note()
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
	note()
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
	note()
	return nc
}

// note makes the file SUITES_LOG, which tells that something has got timeouts.
func note() {
	if err := os.WriteFile(os.Getenv("SUITES_LOG"), nil, 0o666); err != nil {
		panic(err)
	}
}
