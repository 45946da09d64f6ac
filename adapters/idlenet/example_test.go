package idlenet_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func ExampleWrap() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{IdleTimeout: 50 * time.Millisecond}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	conn, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	_, err = io.Copy(conn, conn) // the client is silent
	conn.Close()
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Reason, timeout.Limit)
	}
	fmt.Println(ln.Stats().TimedOut[idle.ReasonIdle], "timed out")
	// Output:
	// idle 50ms
	// 1 timed out
}

// A TLS server gives its clients little time for the handshake, and more afterwards.
func ExampleUnwrap() {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handshake := idle.Policy{Name: "handshake", PhaseTimeout: 10 * time.Second}
	served := idle.Policy{Name: "serving", IdleTimeout: 50 * time.Millisecond}
	wrapped, err := idlenet.Wrap(bare, handshake, &idlenet.Options{
		Idle: idle.Options{Tick: idle.TickFor(handshake, served)}, // the default would be for handshake alone
	})
	if err != nil {
		log.Fatal(err)
	}
	serving, err := wrapped.Phase(served)
	if err != nil {
		log.Fatal(err)
	}
	config, trusting := configs()
	ln := tls.NewListener(wrapped, config)
	defer ln.Close()
	go func() {
		client, err := tls.Dial("tcp", ln.Addr().String(), trusting)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, client) // silent
		client.Close()
	}()

	conn, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*tls.Conn).Handshake(); err != nil {
		log.Fatal(err)
	}
	idlenet.Unwrap(conn).Enter(serving)
	_, err = conn.Read(make([]byte, 1))
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Phase, timeout.Reason)
	}
	// Output: serving idle
}

// configs returns those of a server with a certificate for tests, and of a client
// that trusts it.
func configs() (server, client *tls.Config) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}
