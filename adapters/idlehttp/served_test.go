package idlehttp

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestServedByAnotherServer is refused at the first connection, and the listener with it. Otherwise HandshakeTimeout would cut every connection.
func TestServedByAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		prepared := &http.Server{}
		l, err := Wrap(prepared, pipes, Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		another, err := Wrap(prepared, idletest.NewListener(), Timeouts{}) // that the server serves this one is no excuse
		if err != nil {
			t.Fatal(err)
		}
		go prepared.Serve(another)
		synctest.Wait()
		served := make(chan error)
		go func() { served <- http.Serve(l, nil) }()
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		httpsuite.WantError(t, <-served, "idlehttp: a connection has arrived, but the server that was prepared for the listener doesn't serve it")
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection isn't closed: %v", err)
		}
		prepared.Close()
		l.Close()
	})
}

// TestAcceptedBeforeItIsServed: a listener on top may accept before the server begins.
func TestAcceptedBeforeItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		server := &http.Server{Handler: http.HandlerFunc(echo)}
		l, err := Wrap(server, pipes, Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		early := earlyListener{l, make(chan net.Conn)}
		go early.accept()
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * ms)
		go server.Serve(early)
		go io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if n, err := client.Read(make([]byte, 100)); n == 0 {
			t.Error(err)
		}
		server.Close()
		client.Close()
	})
}

// An earlyListener accepts on a goroutine of its own, as a multiplexer does.
type earlyListener struct {
	net.Listener
	accepted chan net.Conn
}

func (l earlyListener) accept() {
	defer close(l.accepted)
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return
		}
		l.accepted <- c
	}
}

func (l earlyListener) Accept() (net.Conn, error) {
	if c, ok := <-l.accepted; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// TestOwnTimeoutsAfterWrap end Serve before it accepts anything.
func TestOwnTimeoutsAfterWrap(t *testing.T) {
	for want, set := range map[string]func(*http.Server){
		"idlehttp: Server.ReadTimeout is 1h0m0s; leave it 0":       func(s *http.Server) { s.ReadTimeout = time.Hour },
		"idlehttp: Server.ReadHeaderTimeout is 1h0m0s; leave it 0": func(s *http.Server) { s.ReadHeaderTimeout = time.Hour },
		"idlehttp: Server.WriteTimeout is 1h0m0s; leave it 0":      func(s *http.Server) { s.WriteTimeout = time.Hour },
		"idlehttp: Server.IdleTimeout is 1h0m0s; leave it 0":       func(s *http.Server) { s.IdleTimeout = time.Hour },
	} {
		synctest.Test(t, func(t *testing.T) {
			pipes := idletest.NewListener()
			time.AfterFunc(time.Minute, func() { pipes.Close() })
			server := &http.Server{}
			l, err := Wrap(server, pipes, Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			set(server)
			httpsuite.WantError(t, server.Serve(l), want)
			l.Close()
			pipes.Close()
		})
	}
}

// TestHiddenConnection: if a wrapper hides a connection, nothing is known of its requests, and HandshakeTimeout cuts it.
// The log says so once. It doesn't of one that has been sent nothing, because that may still wait for its server.
func TestHiddenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		pipes := idletest.NewListener()
		server := &http.Server{Handler: http.HandlerFunc(echo)}
		l, err := Wrap(server, pipes, Timeouts{Idle: idle.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(hidingListener{l})
		for i := range 3 {
			client, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				go io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			}
			io.Copy(io.Discard, client)
			if n := strings.Count(log.String(), "HandshakeTimeout has ended a connection that its server did not report"); n != min(i, 1) {
				t.Errorf("after %d responses it's logged %d times: %s", i, n, &log)
			}
		}
		server.Close()
		if st := l.Stats(); st.Limits["HandshakeTimeout"] != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// A hidingListener has connections that give no access to what they wrap.
type hidingListener struct{ net.Listener }

type hiding struct{ embedding }
type embedding struct{ net.Conn }

func (l hidingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return hiding{embedding{c}}, err
}
