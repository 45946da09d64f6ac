package httpsuite

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// serve serves ln until Accept fails.
func (u under) serve(ln net.Listener, to Timeouts, secure bool, certFile string) error {
	quit := make(chan struct{})
	stop := sync.OnceFunc(func() { close(quit) })
	defer stop()
	defer time.AfterFunc(Patience, stop).Stop()
	return u.server.serve(ln, to, secure, certFile, quit)
}

// A failing listener fails a number of times with err, and then accepts connections.
type failing struct {
	net.Listener
	err   error
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times--; f.times >= 0 {
		return nil, f.err
	}
	return f.Listener.Accept()
}

var ofServe = []promise{
	// Serve returns the server's own errors, and closes the listener.
	{"ServeFails", plain, func(t *testing.T, u under) {
		broken := errors.New("broken on purpose")
		ln := network()
		if err := u.serve(&failing{ln, broken, 1}, Timeouts{}, false, ""); !errors.Is(err, broken) {
			t.Errorf("Serve: %v", err)
		}
		WantNoListener(t, ln)
		ln = network()
		if err := u.serve(ln, Timeouts{}, true, "no such file"); err == nil {
			t.Error("served without a certificate")
		}
		WantNoListener(t, ln)
		for _, secure := range []bool{false, true} {
			ln = network()
			if err := u.serve(ln, Timeouts{HeaderTimeout: -2}, secure, ""); err == nil {
				t.Error("served with a timeout that makes no sense")
			}
			WantNoListener(t, ln)
		}
		WantError(t, u.serve(nil, Timeouts{}, false, ""), u.pkg+": the listener is nil")
	}},

	// Serve and ServeTLS are all that a server needs. They survive temporary errors of Accept,
	// such as a lack of descriptors.
	{"Serve", usual, func(t *testing.T, u under) {
		lack := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
		ln := network()
		quit, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- u.server.serve(&failing{ln, lack, 3}, Only(limit, "HandshakeTimeout"), u.secure, "", quit)
		}()
		silent := (&Site{T: t, Memory: ln}).DialBare()
		NotBefore(t, silent.WantClosed(), silent.Begun, limit)
		close(quit)
		NoError(t, Receive(t, ended))
		WantNoListener(t, ln)
	}},

	// The handler learns of TLS, as with the bare server, whether the server or the listener does the handshake.
	{"HandlerIsToldOfTLS", everywhere, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), func(r request) { fmt.Fprint(r, r.TLS()) })
		c := s.Dial()
		for range 2 {
			if got := c.Get("/"); got != fmt.Sprint(u.secure) {
				t.Errorf("TLS, and the handshake is complete: %s", got)
			}
		}
		s.WantNone()
	}},

	// A nil listener is refused, and one that has timeouts already.
	{"RefusedListeners", plain, func(t *testing.T, u under) {
		_, err := u.prepare(config{handler: echo, log: io.Discard})
		WantError(t, err, u.pkg+": the listener is nil")
		setup, err := u.prepare(config{listener: network(), timeouts: Off(), handler: echo, log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		defer setup.Listener.Close()
		_, err = u.prepare(config{listener: setup.Listener, handler: echo, log: io.Discard})
		WantError(t, err, u.pkg+": ", "already")
	}},
}
