package idlenet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// random returns n bytes that differ from place to place.
func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// randomFile returns an open file of n random bytes.
func randomFile(t *testing.T, n int) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, random(n), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A source gives n bytes and then EOF.
type source func(t *testing.T, tracker *idle.Tracker, n int) io.Reader

var sources = map[string]source{
	"file":   func(t *testing.T, _ *idle.Tracker, n int) io.Reader { return randomFile(t, n) },
	"memory": func(_ *testing.T, _ *idle.Tracker, n int) io.Reader { return bytes.NewReader(random(n)) },
	"plain": func(_ *testing.T, _ *idle.Tracker, n int) io.Reader {
		return struct{ io.Reader }{bytes.NewReader(random(n))}
	},
	"tcp": overTCP(func(_ *testing.T, c *net.TCPConn, _ *idle.Tracker) io.Reader { return c }),
	"wrapped tcp": overTCP(func(t *testing.T, c *net.TCPConn, tracker *idle.Tracker) io.Reader {
		return wrapped(t, c, tracker, nil)
	}),
	"sniffed": overTCP(func(_ *testing.T, c *net.TCPConn, _ *idle.Tracker) io.Reader { return sniff(c) }),
	"wrapped, sniffed": overTCP(func(t *testing.T, c *net.TCPConn, tracker *idle.Tracker) io.Reader {
		return wrapped(t, sniff(c), tracker, nil)
	}),
	"wrapped unix": func(t *testing.T, tracker *idle.Tracker, n int) io.Reader {
		bare, peer := socketPair(t, "unix", filepath.Join(t.TempDir(), "s"))
		go sendAll(peer, n)
		return wrapped(t, bare, tracker, nil)
	},
	"wrapped pipe": func(t *testing.T, tracker *idle.Tracker, n int) io.Reader {
		conn, peer := pipe(t, tracker, nil)
		go sendAll(peer, n)
		return conn
	},
}

// overTCP returns a source that from makes of a connection.
func overTCP(from func(*testing.T, *net.TCPConn, *idle.Tracker) io.Reader) source {
	return func(t *testing.T, tracker *idle.Tracker, n int) io.Reader {
		conn, peer := tcpPair(t)
		go sendAll(peer, n)
		return from(t, conn, tracker)
	}
}

// sniffed is a connection whose beginning somebody has read, and gives
// it back: a common kind of wrapper. What it has, the kernel does not know of.
type sniffed struct {
	*net.TCPConn
	all io.Reader
}

func sniff(c *net.TCPConn) sniffed {
	b := make([]byte, 1000)
	n, _ := io.ReadFull(c, b)
	return sniffed{c, io.MultiReader(bytes.NewReader(b[:n]), c)}
}

func (c sniffed) Read(b []byte) (int, error) { return c.all.Read(b) }

func (c sniffed) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{c}) }

func sendAll(c net.Conn, n int) {
	c.Write(random(n))
	c.Close()
}

// A sink is written to; what it has got is told when it was closed.
type sink func(t *testing.T, tracker *idle.Tracker) (w io.Writer, got func() []byte)

var sinks = map[string]sink{
	"buffer": func(*testing.T, *idle.Tracker) (io.Writer, func() []byte) {
		b := &bytes.Buffer{}
		return b, b.Bytes
	},
	"file": func(t *testing.T, _ *idle.Tracker) (io.Writer, func() []byte) {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		return f, func() []byte {
			f.Close()
			b, _ := os.ReadFile(f.Name())
			return b
		}
	},
	"tcp": func(t *testing.T, _ *idle.Tracker) (io.Writer, func() []byte) {
		conn, peer := tcpPair(t)
		return conn, collect(conn, peer)
	},
	"wrapped tcp": func(t *testing.T, tracker *idle.Tracker) (io.Writer, func() []byte) {
		conn, peer := connect(t, tracker, nil)
		return conn, collect(conn, peer)
	},
	"wrapped pipe": func(t *testing.T, tracker *idle.Tracker) (io.Writer, func() []byte) {
		conn, peer := pipe(t, tracker, nil)
		return conn, collect(conn, peer)
	},
}

func collect(conn, peer net.Conn) func() []byte {
	all := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(peer); all <- b }()
	return func() []byte { conn.Close(); return <-all }
}

// TestCopyFromAnySourceToAnySink copies up to a limit, and then the rest.
func TestCopyFromAnySourceToAnySink(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute, WriteTimeout: time.Minute, ReadTimeout: time.Minute})
	const some = 3*largeStep + 17
	type copied struct{ size, limit int }
	cases := []copied{{0, 0}, {0, 1}, {1, 0}, {largeStep - 1, 0}, {largeStep, 0}, {largeStep + 1, 0}, {2 * largeStep, 0}}
	for _, limit := range []int{-1, 0, 1, largeStep - 1, largeStep, largeStep + 1, some, some + 1} {
		cases = append(cases, copied{some, limit})
	}
	if !testing.Short() {
		cases = append(cases, copied{10 << 20, 0})
	}
	for from, newSource := range sources {
		for to, newSink := range sinks {
			if !strings.Contains(from+to, "wrapped") {
				continue
			}
			for _, c := range cases {
				t.Run(fmt.Sprintf("%s to %s of %d, %d first", from, to, c.size, c.limit), func(t *testing.T) {
					src, all := newSource(t, tracker, c.size), random(c.size)
					dst, got := newSink(t, tracker)
					limited, want := &io.LimitedReader{R: src, N: int64(c.limit)}, max(0, min(c.limit, c.size))
					if n, err := io.Copy(dst, limited); n != int64(want) || err != nil || limited.N != int64(c.limit)-n {
						t.Errorf("io.Copy returns %d, %v, and leaves %d of the limit; want %d", n, err, limited.N, want)
					}
					if n, err := io.Copy(dst, src); n != int64(c.size-want) || err != nil {
						t.Errorf("io.Copy of the rest returns %d, %v; want %d", n, err, c.size-want)
					}
					if !bytes.Equal(got(), all) {
						t.Error("the content differs")
					}
				})
			}
		}
	}
}

var errTest = errors.New("test")

type failing struct{ after io.Reader }

func (f failing) Read(b []byte) (int, error) {
	if n, err := f.after.Read(b); err == nil {
		return n, nil
	}
	return 0, errTest
}

func (failing) Write([]byte) (int, error) { return 0, errTest }

func TestErrorsOfTheOtherSidePassThrough(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, client := connect(t, tracker, nil)
	go readAll(client)
	if n, err := io.Copy(server, failing{strings.NewReader("abc")}); n != 3 || err != errTest {
		t.Errorf("from a failing reader: %d, %v", n, err)
	}
	source, peer := connect(t, tracker, nil)
	peer.Write([]byte("abc"))
	if n, err := io.Copy(failing{}, source); n != 0 || err != errTest {
		t.Errorf("to a failing writer: %d, %v", n, err)
	}
	for _, to := range []string{"tcp", "wrapped tcp", "buffer"} { // as a Read would have failed
		source, client := connect(t, tracker, nil)
		dst, _ := sinks[to](t, tracker)
		client.SetLinger(0)
		client.Close()
		var op *net.OpError
		if _, err := io.Copy(dst, source); !errors.As(err, &op) || op.Timeout() {
			t.Errorf("to %s: after a reset %v, a %T, want a *net.OpError", to, err, err)
		}
	}
	server.Close()
	if _, err := io.Copy(server, randomFile(t, 10)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a file to a closed connection: %v", err)
	}
	f := randomFile(t, 10)
	f.Close()
	server, _ = connect(t, tracker, nil)
	if _, err := io.Copy(server, f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
}

// Whether the kernel copies shows in that nobody makes a buffer for it.
func TestCopiesFromFilesAndSocketsNeedNoBuffer(t *testing.T) {
	if !kernel.SeesOutput {
		t.Skip("splice is Linux's")
	}
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	for _, from := range []string{"file", "tcp", "wrapped tcp", "wrapped unix"} {
		for _, to := range []string{"tcp", "wrapped tcp"} {
			if !strings.Contains(from+to, "wrapped") {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				src := sources[from](t, tracker, 8)
				conn, peer := tcpPair(t)
				dst := io.Writer(conn)
				if to == "wrapped tcp" {
					w, err := wrapConn(conn, tracker, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer w.Close()
					dst = w
				}
				io.CopyN(dst, src, 4) // make what is made once
				before := allocated()
				n, err := io.Copy(dst, src)
				if used := allocated() - before; used > 16<<10 {
					t.Errorf("%d bytes were allocated, as for a buffer", used)
				}
				if n != 4 || err != nil {
					t.Errorf("io.Copy returns %d, %v", n, err)
				}
				peer.Close()
			})
		}
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Echo through one connection: it is the source and the sink of one copy.
func TestCopyOfConnectionToItself(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	done := make(chan error, 1)
	go func() { _, err := io.Copy(server, server); done <- err }()
	want := random(3*largeStep + 1)
	go func() { client.Write(want); client.CloseWrite() }()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil || string(got) != string(want) {
		t.Error("the echo differs, or fails with", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMessageOfASocketIsWhole: a socket that keeps messages apart gets each in one write, and a copy from it reads each whole.
func TestMessageOfASocketIsWhole(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not every system has such sockets")
	}
	const size = 150 << 10
	tracker := newTracker(t, idle.Policy{IdleTimeout: patience, MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: patience}})
	for _, wraps := range []bool{false, true} {
		source, peer := socketPair(t, "unixpacket", filepath.Join(t.TempDir(), "s"))
		sender := wrapped(t, peer, tracker, nil)
		go func() {
			if n, err := sender.Write(random(size)); n != size || err != nil {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
			sender.Close()
		}()
		if wraps {
			source = wrapped(t, source, tracker, nil)
		}
		if n, err := source.Read(make([]byte, 2*size)); n != size || err != nil {
			t.Errorf("got a message of %d bytes, %v", n, err)
		}
		source, peer = socketPair(t, "unixpacket", filepath.Join(t.TempDir(), "s"))
		if wraps {
			source = wrapped(t, source, tracker, nil)
		}
		peer.Write(random(10_000))
		peer.Close()
		server, client := connect(t, tracker, nil)
		if n, err := io.Copy(server, source); n != 10_000 || err != nil {
			t.Errorf("wrapped %v: copied %d bytes, %v", wraps, n, err)
		}
		server.Close()
		if got, err := io.ReadAll(client); err != nil || string(got) != string(random(10_000)) {
			t.Errorf("wrapped %v: %d bytes arrive, %v", wraps, len(got), err)
		}
	}
}
