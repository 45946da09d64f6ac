package idlehttp

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// A bare is net/http as it is, without timeouts of ours, of which a diary notes what it
// does to the connections that it has accepted.
type bare struct {
	httpsuite.Diary
	*site
	t      testing.TB
	secure bool
	log    httpsuite.Journal // its server's

	mu    sync.Mutex
	conns []net.Conn // as hooks saw them
}

// newBare returns a bare server that is not being served yet.
func newBare(t testing.TB, secure bool) *bare {
	b := &bare{t: t, secure: secure}
	b.Order = earlyDeadlineFirst
	return b
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

// serve serves h by net/http itself.
func (b *bare) serve(h http.HandlerFunc, prepare ...func(*http.Server)) {
	b.t.Helper()
	server := &http.Server{Handler: h, ConnState: func(nc net.Conn, to http.ConnState) {
		b.Note("state %v", to)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns = append(b.conns, nc)
	}}
	b.site = &site{server: server}
	b.Site = httpsuite.Start(b.t, b.secure, func(_ io.Writer, idle func()) (httpsuite.Setup, error) {
		return bareSetup(server, b.Spy(httpsuite.Listen(b.t)), httpsuite.Config{Log: &b.log, Idle: idle}, b.secure, prepare...), nil
	})
}

// conn returns the connection as the hook saw it first.
func (b *bare) conn() net.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns[0]
}

// wantDiary checks what has happened since the connection was accepted.
func (b *bare) wantDiary(want []string, without ...string) {
	b.t.Helper()
	b.Wants(b.t, strings.Join(want, ", "), without...)
}
