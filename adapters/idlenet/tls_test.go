//go:build proof

package idlenet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// tlsConfigs returns those of a server and of a client that trusts it.
func tlsConfigs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "test"}
}

// listenTLS returns a TLS listener above a wrapped one.
func listenTLS(t *testing.T, p idle.Policy) (net.Listener, *tls.Config) {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Wrap(bare, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	server, client := tlsConfigs(t)
	return tls.NewListener(ln, server), client
}

func TestHalfOpenTLSHandshakeTimesOut(t *testing.T) {
	t.Parallel()
	ln, _ := listenTLS(t, idle.Policy{IdleTimeout: 100 * time.Millisecond})
	begun := time.Now()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client.Write([]byte{22, 3, 1}) // a record that never goes on
	err, at := await(t, server.(*tls.Conn).Handshake)
	wantTimeout(t, err, idle.ReasonIdle)
	notBefore(t, at, begun, 100*time.Millisecond)
}

func TestTLSCarriesDataAndTimeouts(t0 *testing.T) {
	t0.Parallel()
	const limit = 300 * time.Millisecond
	t := intime.Of(t0, limit/3)
	ln, config := listenTLS(t0, idle.Policy{IdleTimeout: limit, WriteTimeout: limit})
	want := random(1 << 20)
	got := make(chan []byte, 1)
	go func() {
		client, err := tls.Dial("tcp", ln.Addr().String(), config)
		if err != nil {
			t.Error(err)
			got <- nil
			return
		}
		go client.Write([]byte("give me a megabyte"))
		b := make([]byte, len(want))
		io.ReadFull(client, b)
		got <- b
		readAll(client) // and be silent
		client.Close()
	}()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := read1(server); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write(want); err != nil {
		t.Fatal(err)
	}
	if string(<-got) != string(want) {
		t.Error("the content differs")
	}
	for range 2 { // the second time crypto/tls returns what it has kept
		err, _ = await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonIdle)
	}
}

// tls.Conn gives its farewell 5 s, by a deadline that must not revive the
// connection that has timed out.
func TestTLSCloseDoesNotBlockAfterTimeout(t *testing.T) {
	t.Parallel()
	ln, config := listenTLS(t, idle.Policy{WriteTimeout: 200 * time.Millisecond})
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		client, err := tls.Dial("tcp", ln.Addr().String(), config)
		if err == nil {
			<-stop // never reads
			client.Close()
		}
	}()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	err, _ = await(t, func() error { _, err := server.Write(make([]byte, 64<<20)); return err })
	wantTimeout(t, err, idle.ReasonWrite)
	inTime := intime.Of(t, time.Second)
	begun := time.Now()
	server.Close()
	if took := time.Since(begun); took > 4*time.Second {
		inTime.Errorf("Close took %v", took)
	}
}
