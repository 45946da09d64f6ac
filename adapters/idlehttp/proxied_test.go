package idlehttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A proxiedListener is behind a proxy. The first line on a connection is from that, and as with
// libraries for the PROXY protocol, both Read and RemoteAddr wait for it.
type proxiedListener struct{ net.Listener }

func (l proxiedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	return &proxied{c, in, sync.OnceFunc(func() { in.ReadString('\n') })}, nil
}

type proxied struct {
	net.Conn
	in     *bufio.Reader
	header func()
}

func (c *proxied) Read(b []byte) (int, error) {
	c.header()
	return c.in.Read(b)
}

func (c *proxied) RemoteAddr() net.Addr {
	c.header()
	return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}
}

// TestRequestsBeyondPerKey has clients send a request together with the line that tells their
// address, which may have one connection. Each request is answered, or not executed.
func TestRequestsBeyondPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var executed atomic.Int32
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			executed.Add(1)
			time.Sleep(5 * ms)
		})}
		pipes := idletest.NewListener()
		l, err := Wrap(s, proxiedListener{pipes}, Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		slow := func(owner any) string { // so that Read has the request before the connection is counted
			key := idle.ByAddress(owner)
			if key != "" {
				time.Sleep(ms)
			}
			return key
		}
		if err := l.Tracker().SetCapacity(idle.Capacity{PerKey: 1, Key: slow}); err != nil {
			t.Fatal(err)
		}
		go s.Serve(l)
		defer s.Close()
		answered := 0
		for range 100 {
			nc, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			go io.WriteString(nc, "it is 10.0.0.1\n"+httpsuite.Get("/"))
			nc.SetReadDeadline(time.Now().Add(10 * time.Second))
			if r, err := http.ReadResponse(bufio.NewReader(nc), nil); err == nil && r.StatusCode == http.StatusOK {
				answered++
			}
		}
		if n := int(executed.Load()); n != answered || answered == 0 {
			t.Errorf("%d requests were executed, and %d answered", n, answered)
		}
	})
}
