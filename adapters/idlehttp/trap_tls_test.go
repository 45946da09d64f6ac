package idlehttp

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// With TLS the hooks see the *tls.Conn, which tells what it is around and passes
// deadlines on; New comes before the handshake, and nothing else until the first
// header has been read.
func TestTrapTLS(t *testing.T) {
	t.Parallel()
	b := newBare(t, true)
	b.serve(func(w http.ResponseWriter, r *http.Request) {
		httpsuite.Eventually(t, "the background read begins", func() bool { return b.Has("read deadline zero", 2) })
		time.Sleep(50 * ms)
	})
	c := b.Dial()
	if d := b.Entries("read", "write"); len(d) != 1 || d[0] != "state new" {
		t.Errorf("after the handshake net/http has done %v", d)
	}
	c.Send(httpsuite.Get("/"))
	c.Want(http.StatusOK)
	b.wantDiary([]string{
		"state new",
		"read deadline zero",
		"state active",
		"read deadline zero",
		"read deadline past", "read deadline zero",
		"state idle",
		"read deadline zero",
	}, "read: ", "write", "read.")
	secure, ok := b.conn().(*tls.Conn)
	if !ok {
		t.Fatalf("the hooks see a %T", b.conn())
	}
	if _, ok := secure.NetConn().(*httpsuite.Spy); !ok {
		t.Errorf("it is around a %T", secure.NetConn())
	}
}

// What the adapter takes from the log has these words in it.
func TestTrapHandshakeErrorsAreLogged(t *testing.T) {
	t.Parallel()
	b := newBare(t, true)
	b.serve(unreachable(t), func(server *http.Server) { server.ReadHeaderTimeout = 100 * ms })
	c := b.DialBare()
	c.Send("\x16\x03\x01")
	c.WantClosed()
	want := "http: TLS handshake error from " + c.LocalAddr().String() + ": read tcp "
	httpsuite.Eventually(t, "logged", func() bool {
		return strings.HasPrefix(b.log.Text(), want) && strings.HasSuffix(b.log.Text(), "i/o timeout\n")
	})
	b.wantDiary([]string{"state new", "close", "state closed"}, "read", "write")
}

// HTTP/2 is Active and Idle when the preface has come, whether there are streams
// or not, and then as the first comes and the last goes. No read deadline but
// zero is set, and there is always one read that waits.
func TestTrapHTTP2(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		entered, finish := make(chan bool, 2), make(chan bool)
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) { entered <- true; <-finish }, func(server *http.Server) {
			server.Protocols = new(http.Protocols)
			server.Protocols.SetHTTP1(true)
			server.Protocols.SetHTTP2(secure)
			server.Protocols.SetUnencryptedHTTP2(!secure)
		})
		c := b.Dial("h2")
		states := func(want ...string) {
			t.Helper()
			b.wantDiary(want, "read", "write", "close")
		}
		c.Send(preface[:20])
		states("state new")
		c.Send(preface[20:])
		states("state new", "state active", "state idle")
		c.Send(frame(4, 0, 0, "") + request)
		states("state new", "state active", "state idle", "state active")
		c.Send(strings.Replace(request, "\x00\x00\x00\x01\x82", "\x00\x00\x00\x03\x82", 1)) // another stream tells nothing
		httpsuite.Receive(t, entered)
		httpsuite.Receive(t, entered)
		finish <- true
		states("state new", "state active", "state idle", "state active")
		finish <- true
		states("state new", "state active", "state idle", "state active", "state idle")
		for _, e := range b.Entries() {
			if strings.Contains(e, "deadline to come") || strings.Contains(e, "read deadline past") || strings.HasPrefix(e, "deadline") {
				t.Errorf("net/http does %s", e)
			}
		}
		nc := b.conn()
		b.mu.Lock()
		conns := b.conns
		b.mu.Unlock()
		for _, other := range conns {
			if other != nc {
				t.Errorf("the hooks see different connections")
			}
		}
		if tc, ok := nc.(*tls.Conn); ok != secure || ok && tc.ConnectionState().NegotiatedProtocol != "h2" {
			t.Errorf("the hooks see a %T", nc)
		}
		c.Close()
		states("state new", "state active", "state idle", "state active", "state idle", "state closed")
	})
}

// A preface that does not come is waited for 10 s, and what ends it otherwise is
// logged, in these words.
func TestTrapHTTP2PrefaceErrorsAreLogged(t *testing.T) {
	t.Parallel()
	b := newBare(t, true)
	b.serve(unreachable(t), func(server *http.Server) {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP2(true)
	})
	c := b.Dial("h2")
	httpsuite.Eventually(t, "the preface is waited for", func() bool { return b.Has("write", 2) })
	b.conn().SetReadDeadline(time.Now().Add(50 * ms))
	io.Copy(io.Discard, c)
	httpsuite.Eventually(t, "logged", func() bool {
		return strings.HasPrefix(b.log.Text(), "http2: server: error reading preface from client "+c.LocalAddr().String()+": read tcp ")
	})
}

// Without TLS a server that speaks HTTP/1 only has a handler for the preface:
// it is a request like others, after which there may be more.
func TestTrapPRI(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "PRI" && r.Method != "GET" {
			t.Errorf("the method is %s", r.Method)
		}
	})
	c := b.Dial()
	c.Send("PRI * HTTP/2.0\r\nHost: test\r\n\r\n")
	c.Want(http.StatusOK)
	c.Send(httpsuite.Get("/"))
	c.Want(http.StatusOK)
}
