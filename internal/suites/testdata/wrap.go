package hook_test

import (
	"fmt"
	"net"
	"os"
	"reflect"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// The environment by which internal/suites tells what to do: SUITES_WRAP is empty for
// a bare run, below or above for listeners that are wrapped below or above TLS, or race
// for a run under the race detector: Serve may be called on a goroutine of its own, and
// then changing the server, or a listener of TLS, is a race. To the file SUITES_LOG goes
// a line for each listener.
var (
	suitesWrap = os.Getenv("SUITES_WRAP")
	suitesLog  = os.Getenv("SUITES_LOG")
)

// generous is a limit that no test reaches.
const generous = time.Hour

// A wrapped listener is one that has got timeouts.
type wrapped struct {
	net.Listener
	tracker *idle.Tracker // nil if the listener ends its own
}

func (w *wrapped) Close() error {
	err := w.Listener.Close()
	if w.tracker != nil {
		w.tracker.Close() // from now on, what is open has no timeouts
	}
	return err
}

// wrap returns l with timeouts: with those of an adapter for HTTP or, if that refuses
// the server, those of idlenet. What speaks TLS is wrapped below that if so asked.
func wrap(l net.Listener, adapter func(net.Listener) (net.Listener, error)) net.Listener {
	if l == nil {
		return l
	}
	overTLS := fmt.Sprintf("%T", l) == "*tls.listener"
	switch {
	case suitesWrap == "race" && overTLS:
		return l
	case suitesWrap == "race":
		note("by idlenet")
		return withIdlenet(l)
	case suitesWrap == "below" && overTLS:
		below := reflect.ValueOf(l).Elem().FieldByName("Listener") // an embedded field
		below.Set(reflect.ValueOf(wrap(below.Interface().(net.Listener), adapter)))
		return l
	}
	if w, ok := l.(*wrapped); ok {
		return w
	}
	inner, err := adapter(l)
	if err == nil {
		note("by the adapter for HTTP")
		return &wrapped{Listener: inner}
	}
	note("by idlenet, as " + err.Error())
	return withIdlenet(l)
}

func withIdlenet(l net.Listener) net.Listener {
	tracker, err := idle.New(idle.Policy{IdleTimeout: generous, WriteTimeout: generous}, nil)
	if err != nil {
		panic(err)
	}
	return &wrapped{idlenet.NewListener(l, tracker, nil), tracker}
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
