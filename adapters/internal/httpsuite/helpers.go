package httpsuite

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// Patience is how long a test waits for something that must happen. It's long, so that no test
// fails on a busy machine.
const Patience = 2 * time.Minute

// Timeouts are the adapters' Timeouts.
type Timeouts = httplimits.Timeouts

const ms = time.Millisecond

// limit is the limit in most tests.
const limit = 300 * ms

// Off returns Timeouts with all limits off.
func Off() Timeouts {
	const off = httplimits.Off
	rate := idle.Rate{BytesPerSecond: off}
	return Timeouts{HandshakeTimeout: off, HeaderTimeout: off, BodyTimeout: off, BodyRate: rate, HandlerTimeout: off,
		WriteTimeout: off, WriteRate: rate, KeepAliveTimeout: off, StreamTimeout: off}
}

// All returns Timeouts in which every duration that fasthttp supports is d, except HandlerTimeout.
func All(d time.Duration) Timeouts {
	t := Off()
	t.HandshakeTimeout, t.HeaderTimeout, t.BodyTimeout, t.WriteTimeout, t.KeepAliveTimeout = d, d, d, d, d
	return t
}

// Only returns Timeouts in which the named settings are d. A rate has a grace of d: BodyRate
// is 10,000 bytes per second, and WriteRate more than a client that stops has read. The name
// IdleTimeout sets the limit of hijacked connections. All other limits are on, but too long to matter.
func Only(d time.Duration, names ...string) Timeouts {
	const far = time.Minute
	t := All(far)
	t.BodyRate = idle.Rate{BytesPerSecond: 1, Grace: far}
	t.WriteRate = t.BodyRate
	for _, name := range names {
		if name == "IdleTimeout" {
			t.Hijacked.IdleTimeout = d
			continue
		}
		switch field := reflect.ValueOf(&t).Elem().FieldByName(name).Addr().Interface().(type) {
		case *time.Duration:
			*field = d
		case *idle.Rate:
			*field = idle.Rate{BytesPerSecond: map[bool]int{true: 10_000, false: 1 << 30}[name == "BodyRate"], Grace: d}
		}
	}
	return t
}

// A Gate is an OnTimeout that keeps connections open until Open is called. With it, a slow
// machine can't exceed a limit before the test is ready for that.
type Gate struct{ isOpen atomic.Bool }

// Keep is the callback.
func (g *Gate) Keep(net.Conn, *idle.TimeoutError) bool { return !g.isOpen.Load() }

// Open lets connections time out.
func (g *Gate) Open() { g.isOpen.Store(true) }

// A FailWriter is a server's log. A line in it fails the test.
type FailWriter struct{ T testing.TB }

func (w FailWriter) Write(b []byte) (int, error) {
	w.T.Errorf("the server logs: %s", b)
	return len(b), nil
}

// A Journal is a log that a test can read.
type Journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *Journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(b)
}

// Text returns everything that has been written.
func (j *Journal) Text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// Identity returns a certificate, and a config for clients that trust it.
func Identity() (tls.Certificate, *tls.Config) {
	id := identity()
	return id.certificate, id.client.Clone()
}

var identity = sync.OnceValue(func() (id struct {
	certificate tls.Certificate
	client      *tls.Config
}) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // with the RSA key of httptest, handshakes would keep a 32-bit processor busy
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}, NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	id.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	id.client = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com"}
	id.client.RootCAs.AddCert(certificate)
	return id
})

// ServerTLS returns a config for servers that offer protos by ALPN.
func ServerTLS(protos ...string) *tls.Config {
	certificate, _ := Identity()
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: protos}
}

func tlsListener(ln net.Listener) net.Listener { return tls.NewListener(ln, ServerTLS()) }

// Listen returns a listener on a port of the system's choice.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// WantNoListener checks that ln is closed.
func WantNoListener(t testing.TB, ln net.Listener) {
	t.Helper()
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is still open: %v", err)
	}
}

// Eventually waits until ok returns true.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * ms) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Receive returns the next value from ch.
func Receive[T any](t testing.TB, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(Patience):
		t.Fatalf("nothing within %v", Patience)
	}
	return v
}

// NotBefore checks that at is no earlier than limit after start.
func NotBefore(t testing.TB, at, start time.Time, limit time.Duration) {
	t.Helper()
	if took := at.Sub(start); took < limit {
		t.Errorf("%v after it began, %v before the limit of %v", took, limit-took, limit)
	}
}

// NoError checks that err is nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// WantError checks that err's text contains all of says.
func WantError(t testing.TB, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one about %q", says)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

// Both runs a test without TLS and with TLS.
func Both(t *testing.T, test func(t *testing.T, secure bool)) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, secure)
		})
	}
}
