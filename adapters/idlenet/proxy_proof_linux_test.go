//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// A proxy holds a connection in ReadFrom or WriteTo for as long as the other
// side is silent. These tests are about what else must work meanwhile. Only on
// Linux does the kernel copy from connection to connection.

// TestCopyFromSilentSource has a connection copy from a silent one.
func TestCopyFromSilentSource(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	inTime := intime.Of(t, 300*ms)
	for name, c := range map[string]struct {
		policy idle.Policy
		test   func(t *testing.T, server *Conn, client net.Conn)
	}{
		"a Write gets through": {idle.Policy{IdleTimeout: time.Minute}, func(t *testing.T, server *Conn, client net.Conn) {
			go server.Write([]byte("hello"))
			client.SetReadDeadline(time.Now().Add(patience))
			if err := read1(client); err != nil {
				t.Error(err)
			}
		}},
		"a Write after Close fails": {idle.Policy{IdleTimeout: time.Minute}, func(t *testing.T, server *Conn, _ net.Conn) {
			server.Close()
			if err, _ := await(t, func() error { _, err := server.Write([]byte("x")); return err }); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}},
		"pings get through": {idle.Policy{Heartbeat: idle.Heartbeat{Interval: 200 * ms, Timeout: time.Second, Misses: 2}}, func(t *testing.T, server *Conn, client net.Conn) {
			go io.Copy(client, client) // the client answers whatever it is asked
			go readAll(server)
			time.Sleep(3 * time.Second)
			if err := server.Timeout(); err != nil {
				inTime.Error("a client that answers every ping:", err)
			}
		}},
		"no byte waits to go out": {idle.Policy{WriteTimeout: 100 * ms, MinWriteRate: idle.Rate{BytesPerSecond: 1000, Grace: 100 * ms}}, func(t *testing.T, server *Conn, _ net.Conn) {
			time.Sleep(time.Second)
			if err := server.Timeout(); err != nil {
				t.Error(err)
			}
		}},
		"it's idle in spite of a WriteTimeout": {idle.Policy{IdleTimeout: 500 * ms, WriteTimeout: 100 * ms}, func(t *testing.T, server *Conn, _ net.Conn) {
			err, _ := await(t, func() error { return read1(server) })
			wantTimeout(t, err, idle.ReasonIdle)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ping := func(c *Conn) error { _, err := c.Write([]byte("?")); return err }
			server, client := connect(t, newTracker(t, c.policy), &Options{Ping: ping})
			src, upstream := tcpPair(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				server.ReadFrom(src)
			}()
			t.Cleanup(func() {
				upstream.Close()
				<-done
			})
			time.Sleep(20 * ms) // let it begin
			c.test(t, server, client)
		})
	}
}

// A silent source fails the copy, wherever it goes. CopyN hands a file a reader, in which package os looks for the descriptor.
func TestSilentSourceOfCopyHitsReadTimeout(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	tracker := newTracker(t, idle.Policy{ReadTimeout: limit})
	copyN := func(w io.Writer, c *Conn) (int64, error) { return io.CopyN(w, c, 1000) }
	copyAll := func(w io.Writer, c *Conn) (int64, error) { return io.Copy(w, c) }
	readFrom := func(w io.Writer, c *Conn) (int64, error) { return w.(*os.File).ReadFrom(c) }
	for name, c := range map[string]struct {
		to   string
		copy func(io.Writer, *Conn) (int64, error)
	}{
		"wrapped tcp": {"wrapped tcp", copyAll}, "tcp": {"tcp", copyAll}, "buffer": {"buffer", copyAll}, "file": {"file", copyAll},
		"file, by CopyN": {"file", copyN}, "file, by ReadFrom": {"file", readFrom},
	} {
		t.Run(name, func(t *testing.T) {
			source, client := connect(t, tracker, nil)
			dst, got := sinks[c.to](t, tracker)
			start := time.Now()
			client.Write([]byte("x"))
			err, at := await(t, func() error { _, err := c.copy(dst, source); return err })
			wantTimeout(t, err, idle.ReasonRead)
			notBefore(t, at, start, limit)
			if n := len(got()); n != 1 {
				t.Errorf("%d bytes were copied", n)
			}
		})
	}
}

// TestRateOfSource: a source that is slow, but not too slow, may trickle into one step for long, and send bursts that are
// mostly spliced. One that is too slow is cut.
func TestRateOfSource(t *testing.T) {
	t.Parallel()
	const grace, ms = 500 * time.Millisecond, time.Millisecond
	g := together{t: t}
	defer g.wait.Wait()
	for name, c := range map[string]struct {
		to          string
		rate        int
		size, times int
		every       time.Duration
		cut         bool
	}{
		"wrapped tcp": {"wrapped tcp", 1000, 500, 40, 50 * ms, false}, // 10,000 bytes a second
		"tcp":         {"tcp", 1000, 500, 40, 50 * ms, false},
		"buffer":      {"buffer", 1000, 500, 40, 50 * ms, false},
		"bursts":      {"tcp", 70 << 10, 64 << 10, 8, 400 * ms, false}, // 160 KiB a second
		"trickle":     {"tcp", 1000, 1, 1 << 30, 50 * ms, true},
	} {
		g.run(name, func(t *testing.T) {
			inTime := intime.Of(t, grace/3)
			source, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute, MinReadRate: idle.Rate{BytesPerSecond: c.rate, Grace: grace}}), nil)
			dst, got := sinks[c.to](t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}))
			start := time.Now()
			go func() {
				defer client.Close()
				for range c.times {
					if _, err := client.Write(make([]byte, c.size)); err != nil {
						return
					}
					time.Sleep(c.every)
				}
			}()
			err, at := await(t, func() error { _, err := io.Copy(dst, source); return err })
			switch {
			case c.cut:
				wantTimeout(t, err, idle.ReasonMinReadRate)
				notBefore(t, at, start, grace)
			case err != nil:
				inTime.Error(err)
			}
			got()
		})
	}
}

// A copy from a pipe waits for the pipe's writer. WriteTimeout doesn't count meanwhile, because the peer
// has nothing to read.
func TestSilentPipeIsNoWrite(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	server, client := connect(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
	go readAll(client)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	time.AfterFunc(4*limit, func() { w.Write([]byte("x")); w.Close() })
	if n, err := io.Copy(server, r); n != 1 || err != nil {
		t.Errorf("copied %d bytes: %v", n, err)
	}
}

// An upload through a proxy whose upstream is slow: the client has sent what it
// could, and it is not its fault that nobody takes it. If the upstream stops, it's cut by its WriteTimeout: a
// copy within the kernel is a write like any other.
func TestSinkOfCopyIsSlow(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	inTime := intime.Of(t, limit/3)
	source, client := connect(t, newTracker(t, idle.Policy{ReadTimeout: limit, MinReadRate: idle.Rate{BytesPerSecond: 100 << 10, Grace: limit}}), nil)
	bare, upstream := tcpPair(t)
	dst := wrapped(t, bare, newTracker(t, idle.Policy{WriteTimeout: 4 * limit}), nil)
	bare.SetWriteBuffer(16 << 10)
	upstream.SetReadBuffer(16 << 10)
	go client.Write(make([]byte, 64<<20))
	d := startDrain(upstream, 16<<10, 50*time.Millisecond)
	copied := make(chan error, 1)
	go func() { _, err := source.WriteTo(dst); copied <- err }()
	time.Sleep(8 * limit)
	if err := source.Timeout(); err != nil {
		inTime.Error(err)
	}
	d.end()
	stopped := time.Now()
	err, at := await(t, func() error { return <-copied })
	wantTimeout(t, err, idle.ReasonWrite)
	notBefore(t, at, stopped, limit) // the kernel may have moved the last bytes a while before
}

// TestUrgentData: a copy goes on after urgent data, which it leaves out as Read does.
func TestUrgentData(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: patience})
	src, sender := connect(t, tracker, nil)
	dst, receiver := connect(t, tracker, nil)
	copied := make(chan error, 1)
	go func() { _, err := io.Copy(dst, src); dst.Close(); copied <- err }()
	raw, err := sender.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	receiver.SetReadDeadline(time.Now().Add(patience))
	for _, part := range []string{"ab", "cd", "e"} {
		if _, err := io.WriteString(sender, part); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(part)) // so that the copy waits when the urgent byte arrives
		if _, err := io.ReadFull(receiver, got); err != nil || string(got) != part {
			t.Errorf("got %q, %v, want %q", got, err, part)
		}
		raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) })
		if err != nil {
			t.Fatal(err)
		}
	}
	sender.Close()
	if err, _ := await(t, func() error { return <-copied }); err != nil {
		t.Error(err)
	}
}
