package idlenet

import (
	"bufio"
	"crypto/ed25519"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// failWriter takes a line in a server's log for a failure: timeouts are to be silent there.
type failWriter struct{ t *testing.T }

func (w failWriter) Write(b []byte) (int, error) {
	w.t.Errorf("net/http logs: %s", b)
	return len(b), nil
}

// TestHTTP has net/http on a Listener, as it is.
func TestHTTP(t *testing.T) {
	const limit = 300 * time.Millisecond
	failed := make(chan error)
	readBody := func(_ http.ResponseWriter, r *http.Request) { _, err := io.ReadAll(r.Body); failed <- err }
	for name, c := range map[string]struct {
		policy  idle.Policy
		handler http.HandlerFunc
		client  func(t *testing.T, c net.Conn)
	}{
		"a connection kept alive is closed when idle": {idle.Policy{IdleTimeout: limit}, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }, func(t *testing.T, c net.Conn) {
			in, last := bufio.NewReader(c), time.Time{}
			for range 3 {
				time.Sleep(limit / 2)
				last = time.Now()
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello")
				response, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(response.Body); string(body) != "hello" {
					t.Errorf("%q, %v", body, err)
				}
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("got %v, want EOF", err)
			}
			onTime(t, time.Now(), last, limit)
		}},
		"a body that stalls fails the handler": {idle.Policy{ReadTimeout: limit}, readBody, func(t *testing.T, c net.Conn) {
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nhalf")
			wantTimeout(t, <-failed, idle.ReasonRead)
		}},
		// net/http reads in the background meanwhile. It is what idlehttp is for.
		"a handler that's longer than ReadTimeout": {idle.Policy{ReadTimeout: limit}, func(http.ResponseWriter, *http.Request) { time.Sleep(2 * limit) }, func(t *testing.T, c net.Conn) {
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				t.Error("there was a response: the documentation says otherwise")
			}
		}},
		"a hijacked connection": {idle.Policy{IdleTimeout: limit}, func(w http.ResponseWriter, r *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if c, ok := conn.(*Conn); !ok || err != nil {
				t.Errorf("got a %T, %v", c, err)
			}
			defer conn.Close()
			_, err = io.Copy(conn, rw)
			failed <- err
		}, func(t *testing.T, c net.Conn) {
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
			fmt.Fprintf(c, "hello")
			got := make([]byte, 5)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
				t.Fatalf("got %q, %v", got, err)
			}
			wantTimeout(t, <-failed, idle.ReasonIdle)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed = make(chan error)
				inner := newPipeListener()
				ln, err := Wrap(inner, c.policy, &Options{Idle: idle.Options{Tick: tick}})
				if err != nil {
					t.Fatal(err)
				}
				server := &http.Server{Handler: c.handler, ErrorLog: log.New(failWriter{t}, "", 0)}
				go server.Serve(ln)
				client := inner.dial()
				c.client(t, client)
				client.Close()
				server.Close()
				time.Sleep(2 * limit) // until the handlers have returned
			})
		})
	}
}

// tlsPair returns both ends of a TLS connection above one with the policy.
func tlsPair(t *testing.T, p idle.Policy) (server, client *tls.Conn) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	below, peer := pipe(t, newTracker(t, p), nil)
	server = tls.Server(below, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}})
	client = tls.Client(peer, &tls.Config{InsecureSkipVerify: true})
	go client.Handshake()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	return server, client
}

func TestTLSCarriesDataAndTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 300 * time.Millisecond
		server, client := tlsPair(t, idle.Policy{IdleTimeout: limit, WriteTimeout: limit})
		want := random(1 << 20)
		go server.Write(want)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(client, got); err != nil || string(got) != string(want) {
			t.Error("the content differs, or ", err)
		}
		go readAll(client)
		for range 2 { // the second time crypto/tls returns what it has kept
			wantTimeout(t, read1(server), idle.ReasonIdle)
		}
	})
}

// tls.Conn gives its farewell 5 s, by a deadline that must not revive the
// connection that has timed out.
func TestTLSCloseDoesNotBlockAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := tlsPair(t, idle.Policy{WriteTimeout: 200 * time.Millisecond})
		if err := client.Handshake(); err != nil { // and then it never reads
			t.Fatal(err)
		}
		_, err := server.Write(make([]byte, 1<<20))
		wantTimeout(t, err, idle.ReasonWrite)
		begun := time.Now()
		server.Close()
		if took := time.Since(begun); took > 0 {
			t.Errorf("Close took %v", took)
		}
	})
}
