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
		eventually(t, "the background read begins", func() bool { return b.has("read", 2) })
		io.WriteString(w, "done")
	})
	c := b.dial()
	c.send(get("/"))
	c.want(http.StatusOK)
	c.Close()
	b.wantDiary([]string{
		"state new",
		"read deadline zero", // before Active: no word about the body
		"read", "read is done",
		"state active",
		"read deadline zero", // the word
		"read",
		"write",
		"read deadline past", "read fails: timeout", "read deadline zero",
		"write deadline zero",
		"state idle",
		"read deadline zero",
		"read", "read fails",
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
		b.note("handler goes on")
		io.Copy(io.Discard, r.Body)
		b.note("handler has the body")
		eventually(t, "the background read begins", func() bool { return b.has("read", 4) })
	})
	c := b.dial()
	c.send(post("15"))
	eventually(t, "the body is waited for", func() bool { return b.has("read", 2) })
	c.send("hello")
	receive(t, handed)
	goOn <- true
	eventually(t, "the rest is waited for", func() bool { return b.has("read", 3) })
	c.send("0123456789")
	c.want(http.StatusOK)
	// The background read begins on a goroutine of its own.
	b.wantDiary([]string{
		"state new",
		"read deadline zero",
		"read is done",
		"state active",
		"read is done",
		"handler goes on",
		"read is done",
		"read deadline zero",
		"handler has the body",
		"write",
		"read deadline past", "read fails: timeout", "read deadline zero",
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
	c := b.dial()
	c.send(post("10") + "hello")
	eventually(t, "the rest is waited for", func() bool { return b.has("read", 2) })
	if b.has("write", 1) {
		t.Error("the response is written before the body is read")
	}
	c.send("hello")
	c.want(http.StatusOK)
	if d := strings.Join(b.diary("read is", "read fails"), ", "); !strings.Contains(d, "state active, read, read deadline zero, ") {
		t.Errorf("net/http does %s", d)
	}
}

// Interim answers are written by one Write, which has just that in it.
func TestTrapContinue(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(echo)
	c := b.dial()
	c.send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	eventually(t, "it is told to go on", func() bool { return b.has(`write "HTTP/1.1 100 Continue\r\n\r\n"`, 1) })
}

// A handler's read deadline is set on the connection, as it is.
func TestTrapHandlersDeadline(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			rc.SetReadDeadline(time.Now().Add(time.Hour))
			rc.SetReadDeadline(time.Time{})
			rc.SetWriteDeadline(time.Now().Add(time.Hour))
		})
		c := b.dial()
		c.send(post("5") + "hello")
		c.want(http.StatusOK)
		d := strings.Join(b.diary("read is", "read fails"), ", ")
		if !strings.Contains(d, "state active, read deadline to come, read deadline zero, write deadline to come") {
			t.Errorf("net/http does %s", d)
		}
	})
}

// Hijacking ends the background read and sets both deadlines at once, which
// nothing else does, and then comes the state; nothing is told after it.
func TestTrapHijack(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(func(w http.ResponseWriter, r *http.Request) {
			b.note("handler")
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
		c := b.dial()
		c.send(upgrade)
		eventually(t, "it is closed", func() bool { return b.has("close", 1) })
		d := strings.Join(b.diary("read is", "read fails", "write", "read deadline"), ", ")
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
	c := b.dial()
	c.send("GET /")
	eventually(t, "the rest is waited for", func() bool { return b.has("read", 2) })
	b.conn().SetReadDeadline(time.Unix(1, 0))
	c.want(http.StatusBadRequest)
	b.wantDiary([]string{"state new", "state active", "write", "close", "state closed"}, "read")
	if text := b.log.text(); text != "" {
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
	c := b.dial()
	c.send(get("/"))
	c.want(http.StatusOK)
	d := b.diary("state", "read is", "read fails", "read deadline")
	if got := strings.Join(d, ", "); !strings.Contains(got, "write, readfrom *io.LimitedReader of *os.File") {
		t.Errorf("net/http does %s", got)
	}
}

// ConnContext is called before the state is New, with the same connection, and
// its context is that of requests; the connection of a handler that is called
// is never closed without its state being told.
func TestTrapConnContext(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		type key struct{}
		b := newBare(t, secure)
		seen := make(chan any, 1)
		b.serve(func(w http.ResponseWriter, r *http.Request) { seen <- r.Context().Value(key{}) },
			func(server *http.Server) {
				server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
					b.note("context")
					return context.WithValue(ctx, key{}, nc)
				}
			})
		c := b.dial()
		c.send(get("/"))
		c.want(http.StatusOK)
		if nc := receive(t, seen); nc != b.conn() {
			t.Errorf("the context has a %T", nc)
		}
		if d := b.diary("read", "write"); d[0] != "context" || d[1] != "state new" {
			t.Errorf("net/http does %v", d)
		}
	})
}

// Shutdown closes idle connections by their Close, from a goroutine of its own,
// and only then their state is told.
func TestTrapShutdown(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		b := newBare(t, secure)
		b.serve(echo)
		c := b.dial()
		c.send(get("/"))
		c.want(http.StatusOK)
		if err := b.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		c.wantClosed()
		eventually(t, "the state is told", func() bool { return b.has("state closed", 1) })
		if d := strings.Join(b.diary("read", "write"), ", "); !strings.HasPrefix(d, "state new, state active, state idle, close") {
			t.Errorf("net/http does %s", d)
		}
	})
}
