//go:build proof

package httpconn

import (
	"crypto/tls"
	"net"
	"testing"
)

// TestTrapTLSListener: a listener of crypto/tls is a struct of the listener inside
// and the config, and does nothing but put TLS on top of connections. When that
// changes, splitTLS has to.
func TestTrapTLSListener(t *testing.T) {
	bare := wires{next: make(chan *wire, 1)}
	config := &tls.Config{NextProtos: []string{"pinned"}}
	inner, got, secure, err := splitTLS(tls.NewListener(bare, config))
	if inner != net.Listener(bare) || got != config || !secure || err != nil {
		t.Errorf("found a %T, config %p (want %p), TLS %v, %v", inner, got, config, secure, err)
	}
	bare.next <- newWire()
	nc, err := tls.NewListener(bare, config).Accept()
	if _, ok := nc.(*tls.Conn); !ok || err != nil {
		t.Errorf("it accepts a %T; %v", nc, err)
	}
	listening, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: make([]tls.Certificate, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	if inner, _, secure, err := splitTLS(listening); !secure || err != nil {
		t.Errorf("of tls.Listen: a %T, TLS %v, %v", inner, secure, err)
	} else if _, ok := inner.(*net.TCPListener); !ok {
		t.Errorf("of tls.Listen: a %T", inner)
	}
}
