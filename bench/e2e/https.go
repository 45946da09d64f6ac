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

// httpsServer is a server of net/http that speaks HTTP/1.1 over TLS.
func httpsServer() server {
	bare := secured(func(s *http.Server, ln net.Listener) error { return s.ServeTLS(ln, "", "") })
	ours := secured(func(s *http.Server, ln net.Listener) error {
		return idlehttp.ServeTLS(s, ln, "", "", idlehttp.Timeouts{})
	})
	return server{
		run: map[string]func(func(string)) error{
			"bare":   httpRun(bare),
			"own":    httpRun(withOwn(bare)),
			us:       httpRun(ours),
			noStream: httpRun(withoutStream(ours)),
		},
		secure:   true,
		exchange: httpExchange(),
	}
}

// secured gives the server a certificate.
func secured(serve func(*http.Server, net.Listener) error) func(*http.Server, net.Listener) error {
	return func(s *http.Server, ln net.Listener) error {
		certificate, err := newCertificate()
		if err != nil {
			return err
		}
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
		return serve(s, ln)
	}
}

// newCertificate makes a certificate that nobody is to trust.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
