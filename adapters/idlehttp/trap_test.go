//go:build proof

package idlehttp

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestNetHTTPDoes what the adapter relies on, as clients send one thing after the other. It
// is about net/http alone. If it fails with a new version of Go, look there.
//
// The read deadline that is set to zero after Active says that nothing of the request is to
// come: the background read begins. Before that the body is read. The background read is
// ended by a past deadline, and Idle comes after that.
func TestNetHTTPDoes(t *testing.T) {
	const (
		active = "new, read deadline zero, active" // there is no word about the body yet
		done   = "read deadline past, read deadline zero, write deadline zero, idle, read deadline zero"
		answer = "write HTTP/1.1 200 OK, " + done
		get    = "GET / HTTP/1.1\r\nHost: test\r\n\r\n"
	)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	type steps []struct {
		sends     string
		responses int
		does      string // from then on
	}
	for name, test := range map[string]struct {
		secure  bool
		handler func(b *bare, w http.ResponseWriter, r *http.Request)
		steps   steps
	}{
		"GET": {false, func(b *bare, w http.ResponseWriter, r *http.Request) { b.background(2) },
			steps{{get, 1, active + ", read deadline zero, " + answer}}},
		// With TLS, New comes before the handshake, and nothing else until the header has been
		// read. The deadlines are passed on by the *tls.Conn.
		"TLS": {true, func(b *bare, w http.ResponseWriter, r *http.Request) {
			httpsuite.Eventually(b.t, "the body is over", func() bool { return b.Has("read deadline zero", 2) })
			time.Sleep(50 * ms) // for the background read
		}, steps{
			{"", 0, "new"},
			{get, 1, "read deadline zero, active, read deadline zero, " + done},
		}},
		// No deadline is set in a body. The word that it has been read comes at its end.
		"body": {false, func(b *bare, w http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 5))
			b.Note("half")
			io.Copy(io.Discard, r.Body)
			b.Note("all")
			b.background(4)
		}, steps{
			{httpsuite.Post(15), 0, active},
			{"hello", 0, "half"},
			{"0123456789", 1, "read deadline zero, all, " + answer},
		}},
		// A body that the handler leaves is read by the server, before it writes what the
		// handler has written.
		"body left": {false, func(b *bare, w http.ResponseWriter, r *http.Request) {}, steps{
			{httpsuite.Post(10) + "hello", 0, active},
			{"hello", 1, "read deadline zero, " + answer},
		}},
		// Interim answers are written by one Write, which has just that in it.
		"continue": {false, func(b *bare, w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); b.background(3) }, steps{
			{"POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", 0,
				active + ", write HTTP/1.1 100 Continue alone"},
			{"hello", 2, "read deadline zero, " + answer},
		}},
		// A handler's deadlines are set on the connection as they are.
		"deadlines": {false, func(b *bare, w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			rc.SetReadDeadline(time.Now().Add(time.Hour))
			rc.SetReadDeadline(time.Time{})
			rc.SetWriteDeadline(time.Now().Add(time.Hour))
		}, steps{{httpsuite.Post(5), 0, active + ", read deadline to come, read deadline zero, write deadline to come"}}},
		// Hijacking sets both deadlines at once, which nothing else does. The state comes after
		// that, and nothing is told after it.
		"hijack": {false, func(b *bare, w http.ResponseWriter, r *http.Request) {
			b.background(2)
			if nc, _, err := http.NewResponseController(w).Hijack(); err != nil || nc.Close() != nil {
				b.t.Error(err)
			}
		}, steps{{httpsuite.Upgrade, 0, active + ", read deadline zero, read deadline past, read deadline zero, deadline zero, hijacked, close"}}},
		// A file is handed to the connection's ReadFrom, so that it can be sent by sendfile.
		"file": {false, func(b *bare, w http.ResponseWriter, r *http.Request) { b.background(2); http.ServeFile(w, r, file) },
			steps{{get, 1, active + ", read deadline zero, write HTTP/1.1 200 OK, readfrom *io.LimitedReader of *os.File, " + done}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bare{t: t, secure: test.secure}
			b.serve(func(w http.ResponseWriter, r *http.Request) { test.handler(b, w, r) })
			c := b.Dial()
			for _, step := range test.steps {
				b.Does(c, step.sends, step.responses, step.does, "read", "write")
			}
			if name != "hijack" {
				b.Ends(c)
			}
		})
	}
}

// A bare is net/http as it is, without timeouts of ours. The diary notes what it does to its
// connections.
type bare struct {
	httpsuite.Diary
	*httpsuite.Site
	t      testing.TB
	secure bool
}

// serve serves h by net/http itself.
func (b *bare) serve(h http.HandlerFunc) {
	b.t.Helper()
	b.Order = earlyDeadlineFirst
	server := &http.Server{Handler: h, ConnState: func(_ net.Conn, to http.ConnState) { b.Note("%v", to) }}
	b.Site = httpsuite.Start(b.t, b.secure, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
		return httpsuite.NetHTTP(server, b.Spy(httpsuite.Listen(b.t)), b.secure, log, idle), nil
	})
}

// background waits until the background read begins, which is the nth read.
func (b *bare) background(n int) {
	httpsuite.Eventually(b.t, "the background read begins", func() bool { return b.Has("read", n) })
}

// earlyDeadlineFirst puts the read deadline that is set before Active right after New.
// Up to Go 1.26.5 net/http sets it before it reads the header, and since Go 1.26.6 after
// that. The adapter takes no notice of it.
func earlyDeadlineFirst(diary []string) []string {
	const set = "read deadline zero"
	i, active := slices.Index(diary, set), slices.Index(diary, "active")
	if 1 < i && i < active {
		diary = slices.Insert(slices.Delete(diary, i, i+1), 1, set)
	}
	return diary
}
