package idletest_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// docs/testing.md quotes these tests.

func TestSlowHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		server := &http.Server{}
		go idlehttp.Serve(server, pipes, idlehttp.Timeouts{HeaderTimeout: time.Minute})
		defer server.Close()
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(client, "GET / HTTP/1.1\r\nHost: any\r\n") // and nothing more
		begun := time.Now()
		answer, _ := io.ReadAll(client)
		if waited := time.Since(begun).Round(time.Second); waited != time.Minute || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("%q after %v", answer, waited)
		}
	})
}

func TestReaderThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		ln, err := idlenet.Wrap(pipes, idle.Policy{WriteTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ended := make(chan error)
		go func() { // the server under test
			conn, _ := ln.Accept()
			defer conn.Close()
			_, err := io.WriteString(conn, "hello")
			ended <- err
		}()
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(client, make([]byte, 2)) // and nothing more
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "WriteTimeout of 1m0s passed") {
			t.Error(err)
		}
	})
}

func TestFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		ln, err := idlenet.Wrap(pipes, idle.Policy{IdleTimeout: time.Hour}, &idlenet.Options{
			OnEnd: func(c *idlenet.Conn, err *idle.TimeoutError) { fmt.Fprint(c, "bye: ", err.Setting) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go io.Copy(io.Discard, conn)
			}
		}()
		reads, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		silent, err := pipes.Dial() // doesn't read, so OnEnd gives up after a second
		if err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(reads); err != nil || string(said) != "bye: IdleTimeout" {
			t.Errorf("%q, %v", said, err)
		}
		time.Sleep(2 * time.Second)
		if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
	})
}

func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		policy := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: 10 * time.Second}}
		ln, err := idlenet.Wrap(pipes, policy, &idlenet.Options{
			Ping: func(c *idlenet.Conn) error { _, err := io.WriteString(c, "ping\n"); return err },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			conn, _ := ln.Accept()
			defer conn.Close()
			io.Copy(io.Discard, conn)
		}()
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(client)
		for range 60 { // an hour of answers
			in.Scan()
			io.WriteString(client, "pong\n")
		}
		begun := time.Now()
		for in.Scan() { // one more ping, without an answer
		}
		if waited := time.Since(begun).Round(time.Second); waited != 70*time.Second || ln.Stats().Pings != 61 {
			t.Errorf("ended after %v and %d pings", waited, ln.Stats().Pings)
		}
	})
}

func TestHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serverConfig, clientConfig := certificate(t)
		pipes := idletest.NewListener()
		login := idle.Policy{PhaseTimeout: 10 * time.Second}
		wrapped, err := idlenet.Wrap(pipes, login, nil)
		if err != nil {
			t.Fatal(err)
		}
		open, err := wrapped.Phase(idle.Policy{IdleTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ln := tls.NewListener(wrapped, serverConfig)
		defer ln.Close()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					if conn.(*tls.Conn).Handshake() != nil {
						return
					}
					idlenet.Unwrap(conn).Enter(open)
					io.Copy(conn, conn)
				}()
			}
		}()

		silent, err := pipes.Dial() // says nothing
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		silent.Read(make([]byte, 1))
		if waited := time.Since(begun).Round(time.Second); waited != 10*time.Second {
			t.Errorf("a silent client ended after %v", waited)
		}

		bare, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		client := tls.Client(bare, clientConfig)
		begun = time.Now()
		if _, err := client.Read(make([]byte, 1)); err == nil { // it also reads what the server's handshake still writes
			t.Error("the server said something")
		}
		if waited := time.Since(begun).Round(time.Second); waited != time.Hour {
			t.Errorf("a client that has shaken hands ended after %v", waited)
		}
		client.Close()
	})
}

// certificate returns configurations of a server and of a client that trusts it. Call it in the bubble, where it is
// the year 2000.
func certificate(t *testing.T) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"test"}, NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "test"}
}

func TestFastHTTP(t *testing.T) {
	// This starts a goroutine of fasthttp that never ends, outside of the bubble.
	if err := new(fasthttp.Response).Write(bufio.NewWriter(io.Discard)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString("hello") }}
		go idlefasthttp.Serve(server, pipes, idlefasthttp.Timeouts{KeepAliveTimeout: time.Hour})
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(client, "GET / HTTP/1.1\r\nHost: any\r\n\r\n")
		begun := time.Now()
		answer, _ := io.ReadAll(client) // until the server hangs up
		if waited := time.Since(begun).Round(time.Second); waited != time.Hour || !strings.HasSuffix(string(answer), "hello") {
			t.Errorf("%q after %v", answer, waited)
		}
		server.Shutdown()
		time.Sleep(11 * time.Second) // fasthttp's workers
	})
}

// TestTLSPings is a server with TLS that pings and says goodbye. Its callbacks get the Conn below TLS, so it
// remembers the *tls.Conn of each.
func TestTLSPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serverConfig, clientConfig := certificate(t)
		var above sync.Map // from *idlenet.Conn to *tls.Conn
		pipes := idletest.NewListener()
		wrapped, err := idlenet.Wrap(pipes, idle.Policy{PhaseTimeout: 10 * time.Second}, &idlenet.Options{
			Ping: func(c *idlenet.Conn) error {
				conn, _ := above.Load(c) // it's there, because only the phase open has pings
				_, err := io.WriteString(conn.(*tls.Conn), "ping ")
				return err
			},
			OnEnd: func(c *idlenet.Conn, err *idle.TimeoutError) {
				if conn, ok := above.Load(c); ok {
					fmt.Fprint(conn.(*tls.Conn), "bye: ", err.Setting)
					conn.(*tls.Conn).CloseWrite() // or the client's Read returns io.ErrUnexpectedEOF
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		open, err := wrapped.Phase(idle.Policy{
			ExplicitUse: true, // pings aren't use
			IdleTimeout: time.Hour,
			Heartbeat:   idle.Heartbeat{Interval: 25 * time.Minute, Timeout: time.Minute},
		})
		if err != nil {
			t.Fatal(err)
		}
		ln := tls.NewListener(wrapped, serverConfig)
		defer ln.Close()
		go func() {
			accepted, err := ln.Accept()
			if err != nil {
				return
			}
			conn := accepted.(*tls.Conn)
			defer conn.Close()
			if conn.Handshake() != nil {
				return
			}
			below := idlenet.Unwrap(conn)
			above.Store(below, conn)
			defer above.Delete(below)
			below.Enter(open)
			for in := bufio.NewScanner(conn); in.Scan(); {
				if in.Text() != "pong" {
					below.Use()
				}
			}
		}()

		bare, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		client := tls.Client(bare, clientConfig)
		begun, heard := time.Now(), ""
		for b := make([]byte, 100); err == nil; {
			var n int
			n, err = client.Read(b)
			if heard += string(b[:n]); string(b[:n]) == "ping " {
				io.WriteString(client, "pong\n")
			}
		}
		if waited := time.Since(begun).Round(time.Second); err != io.EOF || heard != "ping ping bye: IdleTimeout" || waited != time.Hour {
			t.Errorf("%q, %v after %v", heard, err, waited)
		}
		client.Close()
	})
}
