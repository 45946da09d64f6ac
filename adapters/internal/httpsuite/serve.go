package httpsuite

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/netutil"
)

// serving serves ln with the timeouts to until the end of the test, and returns how that
// ends.
func (u under) serving(t testing.TB, ln net.Listener, to Timeouts, secure bool) (stop func() error) {
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- u.Serve(ln, to, secure, "", quit) }()
	return func() error {
		close(quit)
		return Receive(t, ended)
	}
}

// serve is serving that has to fail by itself.
func (u under) serve(ln net.Listener, to Timeouts, secure bool, certFile string) error {
	quit := make(chan struct{})
	stop := sync.OnceFunc(func() { close(quit) })
	defer stop()
	defer time.AfterFunc(Patience, stop).Stop()
	return u.Serve(ln, to, secure, certFile, quit)
}

// A failing listener fails so many times with err, and accepts connections then.
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

// opaque is a listener that does not show what it accepts from.
type opaque struct{ hidden net.Listener }

func (o opaque) Accept() (net.Conn, error) { return o.hidden.Accept() }
func (o opaque) Addr() net.Addr            { return o.hidden.Addr() }
func (o opaque) Close() error              { return o.hidden.Close() }

var ofServe = []promise{
	// Serve and ServeTLS are all that a server needs.
	{"Serve", usual, func(t *testing.T, u under) {
		ln := Listen(t)
		stop := u.serving(t, ln, Only(limit, "HandshakeTimeout"), u.Secure)
		silent := Connect(t, ln.Addr())
		NotBefore(t, silent.WantClosed(), silent.Begun, limit)
		if err := stop(); err != nil {
			t.Error(err)
		}
		WantNoListener(t, ln)
	}},

	// Errors of Serve are the server's own, and the listener is closed.
	{"ServeFails", plain, func(t *testing.T, u under) {
		broken := errors.New("broken on purpose")
		ln := Listen(t)
		if err := u.serve(&failing{ln, broken, 1}, Timeouts{}, false, ""); !errors.Is(err, broken) {
			t.Errorf("Serve: %v", err)
		}
		WantNoListener(t, ln)
		ln = Listen(t)
		if err := u.serve(ln, Timeouts{}, true, "no such file"); err == nil {
			t.Error("served without a certificate")
		}
		WantNoListener(t, ln)
		for _, secure := range []bool{false, true} {
			ln = Listen(t)
			if err := u.serve(ln, Timeouts{HeaderTimeout: -2}, secure, ""); err == nil {
				t.Error("served with a timeout that makes no sense")
			}
			WantNoListener(t, ln)
		}
		WantError(t, u.serve(nil, Timeouts{}, false, ""), u.Package+": the listener is nil")
	}},

	// A lack of descriptors, and other errors that pass, do not end a server.
	{"ServeOutlastsALackOfDescriptors", plain, func(t *testing.T, u under) {
		lack := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
		ln := Listen(t)
		stop := u.serving(t, &failing{ln, lack, 3}, Timeouts{}, false)
		c := Connect(t, ln.Addr())
		if got := c.Get("/"); got != "served" {
			t.Errorf("got %q", got)
		}
		c.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	}},

	// The handler is told of TLS, as it is by the bare server, whether that or the listener does the TLS.
	{"HandlerIsToldOfTLS", everywhere, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), func(r Request) { fmt.Fprint(r, r.TLS()) })
		c := s.Dial()
		for range 2 {
			if got := c.Get("/"); got != fmt.Sprint(u.Secure) {
				t.Errorf("TLS, and the handshake is complete: %s", got)
			}
		}
		s.WantNone()
	}},

	// TLS behind a wrapper is refused, as nobody would recognise it there.
	{"TLSOutOfReachIsRefused", plain, func(t *testing.T, u under) {
		for name, wrap := range map[string]func(net.Listener) net.Listener{
			"seen at once":   func(ln net.Listener) net.Listener { return netutil.LimitListener(ln, 1) },
			"seen at Accept": func(ln net.Listener) net.Listener { return opaque{ln} },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ln := Listen(t)
				client := Connect(t, ln.Addr())
				err := u.serve(wrap(tls.NewListener(ln, ServerTLS())), Off(), false, "")
				WantError(t, err, u.Package+": ", "TLS", "ServeTLS", "tls.NewListener(l, config)")
				WantNoListener(t, ln)
				client.WantClosed()
			})
		}
	}},

	// A connection without limits is left alone.
	{"Off", usual, func(t *testing.T, u under) {
		s := u.start(t, Off(), echo)
		c := s.Dial()
		for _, part := range []string{Post(3)[:5], Post(3)[5:], "abc"} {
			time.Sleep(limit)
			c.Send(part)
		}
		c.Want(200)
		time.Sleep(limit)
		c.Get("/")
		s.WantNone()
	}},
}
