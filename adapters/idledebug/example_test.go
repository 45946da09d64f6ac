package idledebug_test

import (
	"crypto/tls"
	"crypto/x509"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idledebug"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// The page is on a port of its own, which only this machine reaches.
func Example() {
	bare, err := net.Listen("tcp", ":9000")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{Name: "chat", IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	page, err := idledebug.New(map[string]*idle.Tracker{"chat": ln.Tracker()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ops := http.NewServeMux()
	ops.Handle("/debug/idle/", http.StripPrefix("/debug/idle", page))
	go func() { log.Fatal(http.ListenAndServe("localhost:6060", ops)) }()

	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn)
	}
}

// Operators may look from any host. Client certificates say who is who.
func ExampleNew_authorize() {
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	page, err := idledebug.New(map[string]*idle.Tracker{"chat": tracker}, &idledebug.Options{
		Authorize: func(r *http.Request) bool { return hasRole(r, "operator") },
	})
	if err != nil {
		log.Fatal(err)
	}
	ops := http.NewServeMux()
	ops.Handle("/idle/", http.StripPrefix("/idle", page))
	server := &http.Server{Addr: ":6443", Handler: ops, TLSConfig: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots()}}
	log.Fatal(server.ListenAndServeTLS("server.pem", "server.key"))
}

func serve(conn net.Conn) { conn.Close() }

func roots() *x509.CertPool { return x509.NewCertPool() }

// hasRole reports whether the client's certificate, which the server has verified, is of a role.
func hasRole(r *http.Request, role string) bool {
	return slices.Contains(r.TLS.PeerCertificates[0].Subject.OrganizationalUnit, role)
}
