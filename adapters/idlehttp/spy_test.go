package idlehttp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A bare is net/http as it is, without timeouts of ours, of which a diary notes
// what it does to the connections that it has accepted.
type bare struct {
	*site
	log journal // its server's

	mu      sync.Mutex
	entries []string
	conns   []net.Conn // as hooks saw them
}

// A spy is a connection that a bare server has accepted.
type spy struct {
	*net.TCPConn
	diary *bare
}

type spyListener struct {
	net.Listener
	diary *bare
}

func (l spyListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &spy{nc.(*net.TCPConn), l.diary}, nil
}

// newBare returns a bare server that is not being served yet.
func newBare(t testing.TB, secure bool) *bare {
	return &bare{site: &site{t: t, secure: secure, served: make(chan error, 1)}}
}

// serve serves h by net/http itself.
func (b *bare) serve(h http.HandlerFunc, prepare ...func(*http.Server)) {
	t, secure := b.t, b.secure
	t.Helper()
	server := &http.Server{Handler: h, ErrorLog: log.New(&b.log, "", 0)}
	server.ConnState = func(nc net.Conn, to http.ConnState) {
		b.note("state " + to.String())
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns = append(b.conns, nc)
	}
	if secure {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{identity().certificate}}
	}
	for _, f := range prepare {
		f(server)
	}
	inner := listen(t)
	b.server = server
	b.watch()
	// What is not wrapped has an address all the same.
	b.Listener = unlimited(t, inner)
	go func() {
		if secure {
			b.served <- server.ServeTLS(spyListener{inner, b}, "", "")
		} else {
			b.served <- server.Serve(spyListener{inner, b})
		}
	}()
	t.Cleanup(func() {
		server.Close()
		<-b.served
		b.Close()
	})
}

// conn returns the connection as the hook saw it first.
func (b *bare) conn() net.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns[0]
}

// unlimited makes a listener of this package of which only the address is used.
func unlimited(t testing.TB, inner net.Listener) *Listener {
	t.Helper()
	l, err := NewListener(&http.Server{}, inner, off())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (b *bare) note(entry string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, entry)
}

// has reports whether the diary has n or more of the entry.
func (b *bare) has(entry string, n int) bool {
	return len(slices.DeleteFunc(b.diary(), func(e string) bool { return e != entry })) >= n
}

// diary returns what has happened, without entries that begin like one of those
// given, or are one of those with a full stop.
func (b *bare) diary(without ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.entries), func(e string) bool {
		return slices.ContainsFunc(without, func(w string) bool { return e+"." == w || strings.HasPrefix(e, w) })
	})
}

// wantDiary checks what has happened since the connection was accepted.
func (b *bare) wantDiary(want []string, without ...string) {
	b.t.Helper()
	var got []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * ms) {
		if got = earlyDeadlineFirst(b.diary(without...)); slices.Equal(got, want) {
			return
		}
	}
	b.t.Errorf("net/http does\n\t%s\nand the adapter relies on\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
}

// earlyDeadlineFirst puts the read deadline that is set before Active right after New.
// Up to Go 1.26.5 net/http sets it before it reads the header, and since Go 1.26.6 after
// that. The adapter takes no notice of it.
func earlyDeadlineFirst(diary []string) []string {
	const set = "read deadline zero"
	i, active := slices.Index(diary, set), slices.Index(diary, "state active")
	if 1 < i && i < active {
		diary = slices.Insert(slices.Delete(diary, i, i+1), 1, set)
	}
	return diary
}

func (s *spy) Read(p []byte) (int, error) {
	s.diary.note("read")
	n, err := s.TCPConn.Read(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.diary.note("read fails: timeout")
	case err != nil:
		s.diary.note("read fails")
	default:
		s.diary.note("read is done")
	}
	return n, err
}

func (s *spy) Write(p []byte) (int, error) {
	if !s.diary.secure && len(p) < 40 {
		s.diary.note(fmt.Sprintf("write %q", p))
	} else {
		s.diary.note("write")
	}
	return s.TCPConn.Write(p)
}

func (s *spy) ReadFrom(r io.Reader) (int64, error) {
	what := fmt.Sprintf("%T", r)
	if limited, ok := r.(*io.LimitedReader); ok {
		what += fmt.Sprintf(" of %T", limited.R)
	}
	s.diary.note("readfrom " + what)
	return s.TCPConn.ReadFrom(r)
}

func (s *spy) Close() error      { s.diary.note("close"); return s.TCPConn.Close() }
func (s *spy) CloseWrite() error { s.diary.note("closewrite"); return s.TCPConn.CloseWrite() }

func (s *spy) SetDeadline(t time.Time) error {
	s.diary.note("deadline " + when(t))
	return s.TCPConn.SetDeadline(t)
}

func (s *spy) SetReadDeadline(t time.Time) error {
	s.diary.note("read deadline " + when(t))
	return s.TCPConn.SetReadDeadline(t)
}

func (s *spy) SetWriteDeadline(t time.Time) error {
	s.diary.note("write deadline " + when(t))
	return s.TCPConn.SetWriteDeadline(t)
}

func when(t time.Time) string {
	switch {
	case t.IsZero():
		return "zero"
	case time.Since(t) > time.Hour:
		return "past"
	}
	return "to come"
}
