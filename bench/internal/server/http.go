package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

func newHTTP(c Config, ln net.Listener) (*Server, error) {
	h := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, Greeting) }),
		ErrorLog: log.New(io.Discard, "", 0), // of clients that have reset their connections
	}
	if c.Kind == WebSocket {
		h.Handler = echoWebSocket(c)
	}
	secure := c.Kind == HTTPS || c.Kind == HTTP2
	if secure {
		certificate, err := Certificate()
		if err != nil {
			return nil, err
		}
		h.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	}
	if c.Variant == Own {
		h.ReadTimeout, h.ReadHeaderTimeout, h.WriteTimeout, h.IdleTimeout = c.Own, c.Own, c.Own, c.Own
	}
	if c.Web != nil {
		c.Web(h)
	}
	s := &Server{stop: h.Close}
	if c.Variant == Ours {
		l, err := idlehttp.Wrap(h, ln, c.Timeouts)
		if err != nil {
			return nil, err
		}
		ln, s.Tracker, s.Stats = l, l.Tracker(), func() idle.Stats { return l.Stats().Stats }
	}
	s.serve = func() error {
		err := serve(h, ln, secure)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
	return s, nil
}

func serve(h *http.Server, ln net.Listener, secure bool) error {
	if secure {
		return h.ServeTLS(ln, "", "")
	}
	return h.Serve(ln)
}

func newFasthttp(c Config, ln net.Listener) (*Server, error) {
	h := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString(Greeting) },
		Logger:  log.New(io.Discard, "", 0),
	}
	if c.Variant == Own {
		h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = c.Own, c.Own, c.Own
	}
	if c.Fast != nil {
		c.Fast(h)
	}
	s := &Server{stop: h.Shutdown}
	if c.Variant == Ours {
		l, err := idlefasthttp.Wrap(h, ln, c.Timeouts)
		if err != nil {
			return nil, err
		}
		ln, s.Tracker, s.Stats = l, l.Tracker(), func() idle.Stats { return l.Stats().Stats }
	}
	s.serve = func() error { return h.Serve(ln) }
	return s, nil
}

// Certificate makes a certificate that nobody is to trust.
func Certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// CertificatePEM returns a certificate and its key in PEM.
func CertificatePEM() (certificate, key string, err error) {
	c, err := Certificate()
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return "", "", err
	}
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// ClientTLS is the client's side of TLS, with the protocols that it asks for. It
// does not look at the certificate, which is made up.
func ClientTLS(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
}
