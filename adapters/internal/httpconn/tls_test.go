package httpconn

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/netutil"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// embedding and its like are wrappers of listeners.
type (
	embedding struct{ net.Listener }
	holding   struct{ Listener net.Listener }
	deeper    struct{ *embedding }
)

func (h holding) Accept() (net.Conn, error) { return h.Listener.Accept() }
func (h holding) Addr() net.Addr            { return h.Listener.Addr() }
func (h holding) Close() error              { return h.Listener.Close() }

// TestTakeApart leaves alone what is no TLS, or does not show it.
func TestTakeApart(t *testing.T) {
	bare := wires{next: make(chan *wire, 1)}
	over := tls.NewListener(bare, &tls.Config{})
	for _, test := range []struct {
		ln      net.Listener
		refused bool
	}{
		{bare, false},
		{embedding{bare}, false},
		{&embedding{}, false},
		{(*embedding)(nil), false},
		{netutil.LimitListener(bare, 1), false},
		{holding{over}, false},
		{deeper{&embedding{bare}}, false},
		{embedding{over}, true},
		{&embedding{&embedding{over}}, true},
		{netutil.LimitListener(over, 1), true},
	} {
		inner, config, secure, err := splitTLS(test.ln)
		if (err != nil) != test.refused || secure || config != nil {
			t.Errorf("a %T: TLS %v, %v", test.ln, secure, err)
		}
		if err == nil && inner != test.ln {
			t.Errorf("a %T became a %T", test.ln, inner)
		}
	}
}

// TestRefusedInsideTLS is what is refused without TLS.
func TestRefusedInsideTLS(t *testing.T) {
	wrapped, err := idlenet.Wrap(wires{}, idle.Policy{IdleTimeout: 1e9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer wrapped.Tracker().Close()
	for want, inner := range map[string]net.Listener{
		"the listener is nil":          nil,
		"contains a *idlenet.Listener": wrapped,
		"brings TLS of its own":        tls.NewListener(wires{}, &tls.Config{}),
	} {
		_, err := NewListener("httpconn", tls.NewListener(inner, &tls.Config{}), httplimits.Timeouts{}, NoHTTP2)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
