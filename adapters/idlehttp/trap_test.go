package idlehttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// These are the facts about net/http that the adapter relies on, each against
// net/http itself. When one of them changes, its test says so.

// What becomes of a request without a body. Active comes after the header, and
// then nothing happens but that the read deadline is set, to zero, before the
// background read: that is how the adapter tells the two kinds of reads apart.
// The background read is aborted by a past deadline, which is undone, and Idle
// comes after that, before anything waits for the next request.
func TestTrapRequestWithoutBody(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(func(w http.ResponseWriter, r *http.Request) {
		httpsuite.Eventually(t, "the background read begins", func() bool { return b.Has("read", 2) })
		io.WriteString(w, "done")
	})
	c := b.Dial()
	c.Send(httpsuite.Get("/"))
	c.Want(http.StatusOK)
	c.Close()
	b.wantDiary([]string{
		"state new",
		"read deadline zero", // before Active: no word about the body
		"read", "read: done",
		"state active",
		"read deadline zero", // the word
		"read",
		"write HTTP/1.1 200 OK",
		"read deadline past", "read: timeout", "read deadline zero",
		"write deadline zero",
		"state idle",
		"read deadline zero",
		"read", "read: fails",
		"close",
		"state closed",
	})
}

// A body is read right after Active, by as many reads as it takes, without any
// deadline being set in between; and the word that it has been read comes at its
// end, from whoever reads that.
func TestTrapRequestWithBody(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	handed, goOn := make(chan bool), make(chan bool)
	b.serve(func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 5))
		handed <- true
		<-goOn
		b.Note("handler goes on")
		io.Copy(io.Discard, r.Body)
		b.Note("handler has the body")
		httpsuite.Eventually(t, "the background read begins", func() bool { return b.Has("read", 4) })
	})
	c := b.Dial()
	c.Send(httpsuite.Post(15))
	httpsuite.Eventually(t, "the body is waited for", func() bool { return b.Has("read", 2) })
	c.Send("hello")
	httpsuite.Receive(t, handed)
	goOn <- true
	httpsuite.Eventually(t, "the rest is waited for", func() bool { return b.Has("read", 3) })
	c.Send("0123456789")
	c.Want(http.StatusOK)
	// The background read begins on a goroutine of its own.
	b.wantDiary([]string{
		"state new",
		"read deadline zero",
		"read: done",
		"state active",
		"read: done",
		"handler goes on",
		"read: done",
		"read deadline zero",
		"handler has the body",
		"write HTTP/1.1 200 OK",
		"read deadline past", "read: timeout", "read deadline zero",
		"write deadline zero",
		"state idle",
		"read deadline zero",
	}, "read.")
}

// A body that the handler leaves is read by the server, before it writes what the
// handler has written, without the word, or with it at the end.
func TestTrapBodyLeft(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "no") })
	c := b.Dial()
	c.Send(httpsuite.Post(10) + "hello")
	httpsuite.Eventually(t, "the rest is waited for", func() bool { return b.Has("read", 2) })
	if b.Has("write HTTP/1.1 200 OK", 1) {
		t.Error("the response is written before the body is read")
	}
	c.Send("hello")
	c.Want(http.StatusOK)
	if d := b.Text("read: "); !strings.Contains(d, "state active, read, read deadline zero, ") {
		t.Errorf("net/http does %s", d)
	}
}

// Interim answers are written by one Write, which has just that in it.
func TestTrapContinue(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(echo)
	c := b.Dial()
	c.Send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	httpsuite.Eventually(t, "it is told to go on", func() bool { return b.Has("write HTTP/1.1 100 Continue alone", 1) })
}

// A handler's read deadline is set on the connection, as it is.
func TestTrapHandlersDeadline(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			rc.SetReadDeadline(time.Now().Add(time.Hour))
			rc.SetReadDeadline(time.Time{})
			rc.SetWriteDeadline(time.Now().Add(time.Hour))
		})
		c := b.Dial()
		c.Send(httpsuite.Post(5) + "hello")
		c.Want(http.StatusOK)
		d := b.Text("read: ")
		if !strings.Contains(d, "state active, read deadline to come, read deadline zero, write deadline to come") {
			t.Errorf("net/http does %s", d)
		}
	})
}

// Hijacking ends the background read and sets both deadlines at once, which
// nothing else does, and then comes the state; nothing is told after it.
func TestTrapHijack(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) {
			b.Note("handler")
			nc, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if nc != b.conn() {
				t.Errorf("it gives a %T, not what the hooks saw", nc)
			}
			nc.Close()
		})
		c := b.Dial()
		c.Send(httpsuite.Upgrade)
		httpsuite.Eventually(t, "it is closed", func() bool { return b.Has("close", 1) })
		d := b.Text("read: ", "write", "read deadline")
		if !strings.Contains(d, "deadline zero, state hijacked, close") || strings.Contains(d, "state closed") || strings.Count(d, ", deadline") != 1 {
			t.Errorf("net/http does %s", d)
		}
	})
}

// A header that has begun and fails is Active as well, and nothing is logged. A
// line that is not complete is answered with 400, though it has timed out: only
// that writes fail too makes ours the one answer.
func TestTrapHeaderFails(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(unreachable(t))
	c := b.Dial()
	c.Send("GET /")
	httpsuite.Eventually(t, "the rest is waited for", func() bool { return b.Has("read", 2) })
	b.conn().SetReadDeadline(time.Unix(1, 0))
	c.Want(http.StatusBadRequest)
	b.wantDiary([]string{"state new", "state active", "write HTTP/1.1 400 Bad Request", "close", "state closed"}, "read")
	if text := b.log.Text(); text != "" {
		t.Errorf("logged: %s", text)
	}
}

// A file is handed to the connection's ReadFrom, in a LimitedReader or alone, so
// that it can be sent by sendfile. The beginning goes by Write before.
func TestTrapFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBare(t, false)
	b.serve(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) })
	c := b.Dial()
	c.Send(httpsuite.Get("/"))
	c.Want(http.StatusOK)
	d := b.Entries("state", "read: ", "read deadline")
	if got := strings.Join(d, ", "); !strings.Contains(got, "write HTTP/1.1 200 OK, readfrom *io.LimitedReader of *os.File") {
		t.Errorf("net/http does %s", got)
	}
}

// ConnContext is called before the state is New, with the same connection, and
// its context is that of requests; the connection of a handler that is called
// is never closed without its state being told.
func TestTrapConnContext(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		type key struct{}
		b := newBare(t, secure)
		seen := make(chan any, 1)
		b.serve(func(w http.ResponseWriter, r *http.Request) { seen <- r.Context().Value(key{}) },
			func(server *http.Server) {
				server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
					b.Note("context")
					return context.WithValue(ctx, key{}, nc)
				}
			})
		c := b.Dial()
		c.Send(httpsuite.Get("/"))
		c.Want(http.StatusOK)
		if nc := httpsuite.Receive(t, seen); nc != b.conn() {
			t.Errorf("the context has a %T", nc)
		}
		if d := b.Entries("read", "write"); d[0] != "context" || d[1] != "state new" {
			t.Errorf("net/http does %v", d)
		}
	})
}

// Shutdown closes idle connections by their Close, from a goroutine of its own,
// and only then their state is told.
func TestTrapShutdown(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(echo)
		c := b.Dial()
		c.Send(httpsuite.Get("/"))
		c.Want(http.StatusOK)
		if err := b.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		c.WantClosed()
		httpsuite.Eventually(t, "the state is told", func() bool { return b.Has("state closed", 1) })
		if d := b.Text("read", "write"); !strings.HasPrefix(d, "state new, state active, state idle, close") {
			t.Errorf("net/http does %s", d)
		}
	})
}
