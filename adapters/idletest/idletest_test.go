package idletest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// A server in virtual time: two minutes of silence, without waiting.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		ln, err := idlenet.Wrap(pipes, idle.Policy{IdleTimeout: 2 * time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ended := make(chan error)
		go func() { // the server under test
			conn, err := ln.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, err = io.Copy(conn, conn)
			conn.Close()
			ended <- err
		}()

		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var timeout *idle.TimeoutError
		if err := <-ended; !errors.As(err, &timeout) || timeout.Setting != "IdleTimeout" {
			t.Errorf("the server ended with %v", err)
		}
		if waited := time.Since(begun).Round(time.Second); waited != 2*time.Minute {
			t.Errorf("it ended after %v", waited)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client read %v", err)
		}
	})
}

// An HTTP client and server, both of net/http.
func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		defer pipes.Close()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "hello "+r.RemoteAddr)
		})}
		served := make(chan error)
		go func() { served <- idlehttp.Serve(server, pipes, idlehttp.Timeouts{}) }()
		client := http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipes.DialContext(ctx) },
		}}
		res, err := client.Get("http://any/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		if string(body) != "hello pipe" {
			t.Errorf("got %q", body)
		}

		slow, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(slow, "GET / HTTP/1.1\r\nHost: any\r\n") // and nothing more
		answer, _ := io.ReadAll(slow)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("half a request was answered with %q", answer)
		}

		client.CloseIdleConnections()
		server.Close()
		if err := <-served; err != http.ErrServerClosed {
			t.Error("Serve:", err)
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := idletest.NewListener()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.DialContext(ctx); err != context.Canceled {
			t.Errorf("DialContext with a context that is done: %v", err)
		}
		if a := l.Addr(); a.Network() != "pipe" || a.String() != "pipe" {
			t.Errorf("Addr: %v", a)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error("Close:", err)
			}
		}
		if _, err := l.Accept(); err != net.ErrClosed {
			t.Errorf("Accept: %v", err)
		}
		if _, err := l.Dial(); err != net.ErrClosed {
			t.Errorf("Dial: %v", err)
		}
	})
}

// A dial that succeeds has been accepted, also when the listener is being closed.
func TestCloseBesideDial(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			l := idletest.NewListener()
			go l.Close()
			accepted := make(chan net.Conn, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					conn.Close()
				}
				accepted <- conn
			}()
			client, dialErr := l.Dial()
			if server := <-accepted; (dialErr == nil) != (server != nil) {
				t.Errorf("Dial: %v; accepted: %v", dialErr, server)
			}
			if client != nil {
				client.Close()
			}
		})
	}
}
