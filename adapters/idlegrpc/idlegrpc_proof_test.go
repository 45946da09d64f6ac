//go:build proof

package idlegrpc

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

const (
	patience = 2 * time.Minute
	limit    = 300 * time.Millisecond
)

// start starts a server and returns a client of it.
func start(t *testing.T, secure bool, limits Timeouts) (*Listener, *grpc.ClientConn) {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Wrap(bare, limits)
	if err != nil {
		t.Fatal(err)
	}
	var own credentials.TransportCredentials
	theirs := insecure.NewCredentials()
	if secure {
		s := httptest.NewTLSServer(nil)
		defer s.Close()
		own = credentials.NewTLS(&tls.Config{Certificates: s.TLS.Certificates})
		theirs = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	server := grpc.NewServer(grpc.Creds(l.Credentials(own)), grpc.UnknownServiceHandler(echoing))
	go server.Serve(l)
	t.Cleanup(server.Stop)
	client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(theirs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return l, client
}

func call(t *testing.T, client *grpc.ClientConn, method string) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s, err := client.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func both(t *testing.T, test func(t *testing.T, secure bool)) {
	t.Run("plain", func(t *testing.T) { test(t, false) })
	t.Run("tls", func(t *testing.T) { test(t, true) })
}

// TestHonest: calls are served, and a stream that has begun may be silent.
func TestHonest(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		l, client := start(t, secure, Timeouts{BodyTimeout: limit})
		s := call(t, client, "/test/begins")
		if _, err := s.Header(); err != nil {
			t.Fatal(err)
		}
		inTime := intime.Of(t, limit/4) // with all of a message
		for range 3 {
			time.Sleep(2 * limit)
			m := wrapperspb.Bytes(make([]byte, 200_000))
			if err := s.SendMsg(m); err != nil {
				inTime.Fatal(err)
			}
			if err := s.RecvMsg(m); err != nil || len(m.Value) != 200_000 {
				inTime.Fatal(err)
			}
		}
		s.CloseSend()
		if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != io.EOF {
			inTime.Error(err)
		}
		if n := l.Stats().Limits["BodyTimeout"]; n != 0 {
			inTime.Errorf("%d were reset", n)
		}
	})
}

// wantReset checks that a call is reset by a limit, and that another one on the connection is served.
func wantReset(t *testing.T, l *Listener, client *grpc.ClientConn, s grpc.ClientStream, setting string) {
	t.Helper()
	err := s.RecvMsg(new(wrapperspb.BytesValue))
	for err == nil {
		err = s.RecvMsg(new(wrapperspb.BytesValue))
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("the call ends with %v", err)
	}
	if n := l.Stats().Limits[setting]; n != 1 {
		t.Errorf("%d were reset by %s: %v", n, setting, l.Stats().Limits)
	}
	if n := l.Stats().Tracked; n != 1 {
		t.Errorf("there have been %d connections", n)
	}
	wantServed(t, client)
}

// wantServed checks that another call is served.
func wantServed(t *testing.T, client *grpc.ClientConn) {
	t.Helper()
	inTime := intime.Of(t, limit/4) // with the message
	s := call(t, client, "/test/echo")
	if err := s.SendMsg(wrapperspb.Bytes([]byte("hi"))); err != nil {
		inTime.Error(err)
	}
	if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
		inTime.Errorf("another call fails: %v", err)
	}
}

// TestSilent checks that a call is reset if its client sends no message.
func TestSilent(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		l, client := start(t, secure, Timeouts{BodyTimeout: limit})
		wantReset(t, l, client, call(t, client, "/test/echo"), "BodyTimeout")
	})
}

// TestMessage: a message that stops halfway is reset, and so is one that trickles, whether the
// server has begun to answer or not.
func TestMessage(t *testing.T) {
	stops, trickles := Timeouts{BodyTimeout: limit}, Timeouts{BodyRate: idle.Rate{BytesPerSecond: 10_000, Grace: limit}}
	for _, c := range []struct {
		setting, method string
		limits          Timeouts
	}{
		{"BodyTimeout", "/test/echo", stops},
		{"BodyTimeout", "/test/begins", stops},
		{"BodyRate", "/test/echo", trickles},
		{"BodyRate", "/test/begins", trickles},
	} {
		setting := c.setting
		t.Run(setting+c.method, func(t *testing.T) {
			l, client := start(t, false, c.limits)
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			defer tr.CloseIdleConnections()
			body, message := io.Pipe()
			go func() {
				message.Write([]byte{0, 0, 1, 0, 0, 'x'}) // of 64 KB
				for setting == "BodyRate" {
					if _, err := message.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "POST", "http://"+l.Addr().String()+c.method, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/grpc")
			r.Header.Set("TE", "trailers")
			response, err := tr.RoundTrip(r)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			if err == nil {
				t.Error("got ", response.Status)
			}
			if n := l.Stats().Limits[setting]; n != 1 {
				t.Errorf("timed out: %v", l.Stats().Limits)
			}
			wantServed(t, client)
		})
	}
}

// TestNeverReads: a client that does not take what is sent is reset.
func TestNeverReads(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		l, client := start(t, secure, Timeouts{WriteTimeout: limit, WriteRate: idle.Rate{BytesPerSecond: Off}})
		s := call(t, client, "/test/floods")
		deadline := time.Now().Add(patience)
		for l.Stats().Limits["WriteTimeout"] == 0 && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		wantReset(t, l, client, s, "WriteTimeout")
	})
}

func TestRefusesTLSListener(t *testing.T) {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := Wrap(tls.NewListener(bare, &tls.Config{}), Timeouts{}); err == nil {
		t.Error("a listener of crypto/tls is accepted")
	}
	if _, err := Wrap(bare, Timeouts{BodyTimeout: -5}); err == nil || err.Error() != "idlegrpc: BodyTimeout is -5ns; use 0 for the default of 30s, or Off to disable it" {
		t.Error(err)
	}
}
