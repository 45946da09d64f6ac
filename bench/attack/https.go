package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// serveTLS serves with a certificate that nobody is to trust.
//
// Behind TLS net/http answers by itself when a body does not come, and then waits
// for half a second before it closes: such attackers are cut that much later.
func serveTLS(s *http.Server, variant string, cfg config, ln net.Listener) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	if variant == ours {
		return idlehttp.ServeTLS(s, ln, "", "", cfg.httpTimeouts())
	}
	return s.ServeTLS(ln, "", "")
}

// secure returns the client's side of TLS over a connection. It does not look at
// the certificate: it is made up, and what listens is a child of ours.
func secure(c net.Conn, http2 bool) *tls.Conn {
	config := &tls.Config{InsecureSkipVerify: true}
	if http2 {
		config.NextProtos = []string{"h2"}
	}
	return tls.Client(c, config)
}

// tlsOverhead is how many bytes TLS 1.3 adds to what is written at once. The
// server counts them as well.
const tlsOverhead = 22
