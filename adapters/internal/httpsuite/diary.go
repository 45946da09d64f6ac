package httpsuite

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Diary records what a bare server, without an adapter, does with its connections: reads,
// writes, deadlines, closes, and what the test adds with Note.
type Diary struct {
	// Order, if not nil, sorts entries whose order depends on the server's version.
	Order func(entries []string) []string

	does []string // what Does has expected so far

	mu      sync.Mutex
	entries []string
}

// Note adds an entry.
func (d *Diary) Note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

// entriesBut returns all entries except the given ones.
func (d *Diary) entriesBut(without ...string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := slices.Clone(d.entries)
	if d.Order != nil {
		entries = d.Order(entries)
	}
	return slices.DeleteFunc(entries, func(e string) bool { return slices.Contains(without, e) })
}

// Text returns the entries in one line.
func (d *Diary) Text(without ...string) string { return strings.Join(d.entriesBut(without...), ", ") }

// Has reports whether the entry occurs at least n times.
func (d *Diary) Has(entry string, n int) bool {
	return len(slices.DeleteFunc(d.entriesBut(), func(e string) bool { return e != entry })) >= n
}

// Does sends text and reads the given number of responses. It checks that the server's
// entries since then are does, in one line.
func (d *Diary) Does(c *Client, text string, responses int, does string, without ...string) {
	c.T.Helper()
	c.Send(text)
	for range responses {
		if _, err := io.Copy(io.Discard, c.Response().Body); err != nil {
			c.T.Error(err)
		}
	}
	d.does = append(d.does, does)
	want, got := strings.Join(d.does, ", "), ""
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(2 * ms) {
		if got = d.Text(without...); got == want {
			return
		}
	}
	c.T.Errorf("the server does\n\t%s\nand the adapter relies on\n\t%s", got, want)
}

// Ends closes c, and checks that the server closes the connection and then reports that, last.
func (d *Diary) Ends(c *Client) {
	c.T.Helper()
	c.Close()
	Eventually(c.T, "closed is the last", func() bool { return strings.HasSuffix(d.Text(), ", close, closed") })
}

// Spy returns a listener whose connections write to the diary.
func (d *Diary) Spy(ln net.Listener) net.Listener { return spyListener{ln, d} }

type spyListener struct {
	net.Listener
	diary *Diary
}

func (l spyListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Spy{TCPConn: nc.(*net.TCPConn), diary: l.diary}, nil
}

// A Spy is a connection that writes to a diary.
type Spy struct {
	*net.TCPConn
	diary *Diary
}

func (s *Spy) Read(p []byte) (int, error) {
	s.diary.Note("read")
	return s.TCPConn.Read(p)
}

// Write records the status line, unless p is TLS, and whether p has nothing else.
func (s *Spy) Write(p []byte) (int, error) {
	entry := "write"
	if line, rest, _ := strings.Cut(string(p), "\r\n"); strings.HasPrefix(line, "HTTP/") {
		entry += " " + line + map[bool]string{true: " alone"}[rest == "\r\n"]
	}
	s.diary.Note("%s", entry)
	return s.TCPConn.Write(p)
}

func (s *Spy) ReadFrom(r io.Reader) (int64, error) {
	what := fmt.Sprintf("%T", r)
	if limited, ok := r.(*io.LimitedReader); ok {
		what += fmt.Sprintf(" of %T", limited.R)
	}
	s.diary.Note("readfrom %s", what)
	return s.TCPConn.ReadFrom(r)
}

func (s *Spy) Close() error {
	s.diary.Note("close")
	return s.TCPConn.Close()
}

func (s *Spy) SetDeadline(t time.Time) error {
	s.diary.Note("deadline %s", when(t))
	return s.TCPConn.SetDeadline(t)
}

func (s *Spy) SetReadDeadline(t time.Time) error {
	s.diary.Note("read deadline %s", when(t))
	return s.TCPConn.SetReadDeadline(t)
}

func (s *Spy) SetWriteDeadline(t time.Time) error {
	s.diary.Note("write deadline %s", when(t))
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
