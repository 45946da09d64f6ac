//go:build proof

package idlegrpc

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// wrapping is a listener that wraps each connection.
type wrapping struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrapping) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(nc), nil
}

// A hiding connection gives no access to the connection inside. The connections of an xDS server and
// of cmux are like that.
type hiding struct{ net.Conn }

// A proxied connection keeps the read deadline that it was given, and sets it again after its first
// read, as pires/go-proxyproto does after the PROXY header.
type proxied struct {
	net.Conn
	deadline time.Time
	begun    bool
}

func (c *proxied) SetDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *proxied) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

func (c *proxied) Read(b []byte) (int, error) {
	if !c.begun {
		c.begun = true
		if err := c.Conn.SetReadDeadline(c.deadline); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

// A sniffed connection gives the first bytes again, which Accept has read already, as cmux does.
type sniffed struct {
	net.Conn
	head []byte
}

func sniff(nc net.Conn) net.Conn {
	b := make([]byte, 10)
	n, _ := nc.Read(b)
	return &sniffed{nc, b[:n]}
}

func (c *sniffed) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// TestWrapped checks that connections have their limits, and calls outlive HandshakeTimeout, if a
// listener between ours and the server wraps them.
func TestWrapped(t *testing.T) {
	https := httptest.NewUnstartedServer(nil) // has a certificate
	https.StartTLS()
	defer https.Close()
	own := credentials.NewTLS(&tls.Config{Certificates: https.TLS.Certificates})
	for _, c := range []struct {
		name string
		wrap func(net.Conn) net.Conn
	}{
		{"embedded", func(nc net.Conn) net.Conn { return hiding{nc} }},
		{"twice", func(nc net.Conn) net.Conn { return &hiding{hiding{nc}} }},
		{"deadline set again", func(nc net.Conn) net.Conn { return &proxied{Conn: nc} }},
		{"sniffed", sniff},
	} {
		t.Run(c.name+"/plain", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { serveWrapped(t, c.wrap, insecure.NewCredentials(), insecure.NewCredentials()) })
		})
		t.Run(c.name+"/tls", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serveWrapped(t, c.wrap, own, credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
			})
		})
	}
}

func serveWrapped(t *testing.T, wrap func(net.Conn) net.Conn, own, theirs credentials.TransportCredentials) {
	pipes := idletest.NewListener()
	l, err := Wrap(pipes, Timeouts{HandshakeTimeout: 5 * time.Second, HeaderTimeout: 5 * time.Second, KeepAliveTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(l.Credentials(own)), grpc.UnknownServiceHandler(echoing))
	go server.Serve(wrapping{l, wrap})
	defer server.Stop()
	client, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(theirs),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return pipes.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, err := client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test/begins")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Header(); err != nil {
		t.Fatal(err)
	}
	m := wrapperspb.Bytes([]byte("x"))
	for i := range 10 {
		time.Sleep(20 * time.Second)
		err := s.SendMsg(m)
		if err == nil {
			err = s.RecvMsg(m)
		}
		if err != nil {
			t.Fatalf("message %d: %v; limits %v", i, err, l.Stats().Limits)
		}
	}
	s.CloseSend()
	if err := s.RecvMsg(m); err != io.EOF {
		t.Errorf("the call ends with %v", err)
	}
	time.Sleep(50 * time.Second)
	if st := l.Stats(); st.Live != 1 || st.Tracked != 1 {
		t.Errorf("before KeepAliveTimeout, %d of %d connections are open", st.Live, st.Tracked)
	}
	time.Sleep(20 * time.Second)
	if st := l.Stats(); st.Live != 0 || st.Tracked != 1 {
		t.Errorf("after KeepAliveTimeout, %d of %d connections are open", st.Live, st.Tracked)
	}
}
