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

// copying has a connection copy from a silent one until the test is over.
func copying(t *testing.T, dst *Conn) {
	t.Helper()
	src, upstream := tcpPair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		dst.ReadFrom(src)
	}()
	t.Cleanup(func() {
		upstream.Close()
		<-done
	})
	time.Sleep(20 * time.Millisecond) // let it begin
}

func TestWriteIsNotHeldUpByCopyFromSilentSource(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	copying(t, server)
	go server.Write([]byte("hello"))
	client.SetReadDeadline(time.Now().Add(patience))
	if err := read1(client); err != nil {
		t.Error("while nothing is there to copy, a Write does not get through:", err)
	}
}

func TestPingIsNotHeldUpByCopyFromSilentSource(t *testing.T) {
	t.Parallel()
	policy := idle.Policy{Heartbeat: idle.Heartbeat{Interval: 200 * time.Millisecond, Timeout: time.Second, Misses: 2}}
	server, client := connect(t, newTracker(t, policy), &Options{Ping: func(c *Conn) error {
		_, err := c.Write([]byte("?"))
		return err
	}})
	inTime := intime.Of(t, 300*time.Millisecond)
	go io.Copy(client, client) // the client answers whatever it is asked
	go readAll(server)
	copying(t, server)
	time.Sleep(3 * time.Second)
	if err := server.Timeout(); err != nil {
		inTime.Error("a client that answers every ping:", err)
	}
}

func TestWriteFailsAtOnceAfterCloseInSpiteOfCopy(t *testing.T) {
	t.Parallel()
	server, _ := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	copying(t, server)
	server.Close()
	failed := make(chan error, 1)
	go func() { _, err := server.Write([]byte("x")); failed <- err }()
	select {
	case err := <-failed:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("a Write after Close hangs")
	}
}

// While a proxy waits for its upstream no byte waits to go out to the client.
func TestWriteLimitsDoNotCountWhileSourceIsSilent(t *testing.T) {
	t.Parallel()
	server, _ := connect(t, newTracker(t, idle.Policy{
		WriteTimeout: 100 * time.Millisecond,
		MinWriteRate: idle.Rate{BytesPerSecond: 1000, Grace: 100 * time.Millisecond},
	}), nil)
	copying(t, server)
	time.Sleep(time.Second)
	if err := server.Timeout(); err != nil {
		t.Error(err)
	}
}

func TestSilentTunnelIsIdleInSpiteOfItsWriteTimeout(t *testing.T) {
	t.Parallel()
	server, _ := connect(t, newTracker(t, idle.Policy{
		IdleTimeout: 500 * time.Millisecond, WriteTimeout: 100 * time.Millisecond}), nil)
	copying(t, server)
	err, _ := await(t, func() error { return read1(server) })
	wantTimeout(t, err, idle.ReasonIdle)
}

func TestSilentSourceOfCopyHitsReadTimeout(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	tracker := newTracker(t, idle.Policy{ReadTimeout: limit})
	for _, to := range []string{"wrapped tcp", "tcp", "file", "buffer"} {
		t.Run(to, func(t *testing.T) {
			source, client := connect(t, tracker, nil)
			dst, got := sinks[to](t, tracker)
			start := time.Now()
			client.Write([]byte("x"))
			err, at := await(t, func() error { _, err := io.Copy(dst, source); return err })
			wantTimeout(t, err, idle.ReasonRead)
			notBefore(t, at, start, limit)
			if n := len(got()); n != 1 {
				t.Errorf("%d bytes were copied", n)
			}
		})
	}
}

// CopyN hands the file a reader of which package os looks for the descriptor.
func TestSilentUploadToFileHitsReadTimeout(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	for name, copyTo := range map[string]func(*os.File, *Conn) (int64, error){
		"io.CopyN":      func(f *os.File, c *Conn) (int64, error) { return io.CopyN(f, c, 1000) },
		"File.ReadFrom": func(f *os.File, c *Conn) (int64, error) { return f.ReadFrom(c) },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := connect(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
			f, err := os.Create(t.TempDir() + "/upload")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			start := time.Now()
			client.Write([]byte("x"))
			defer time.AfterFunc(patience/2, func() { client.Close() }).Stop()
			err, at := await(t, func() error { _, err := copyTo(f, server); return err })
			wantTimeout(t, err, idle.ReasonRead)
			notBefore(t, at, start, limit)
		})
	}
}

// A source that is slow, but not too slow, trickles into one step for long.
func TestSourceOfCopyAboveTheRateIsNotCut(t *testing.T) {
	t.Parallel()
	const grace = 500 * time.Millisecond
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second, ReadTimeout: time.Second,
		MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: grace}})
	g := together{t: t}
	defer g.wait.Wait()
	for _, to := range []string{"wrapped tcp", "tcp", "buffer"} {
		g.run(to, func(t *testing.T) {
			inTime := intime.Of(t, grace/3)
			source, client := connect(t, tracker, nil)
			dst, got := sinks[to](t, tracker)
			go func() {
				defer client.Close()
				for range 40 { // 10,000 bytes a second, for two seconds
					client.Write(make([]byte, 500))
					time.Sleep(50 * time.Millisecond)
				}
			}()
			n, err := io.Copy(dst, source)
			if err != nil {
				inTime.Errorf("after %d bytes: %v", n, err)
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

// Bytes that are spliced count for MinReadRate, so a source that sends fast bursts isn't cut.
func TestBurstsIntoCopyCountForTheRate(t *testing.T) {
	t.Parallel()
	inTime := intime.Of(t, 200*time.Millisecond)
	source, client := connect(t, newTracker(t, idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 40 << 10, Grace: 900 * time.Millisecond}}), nil)
	dst, peer := tcpPair(t)
	go readAll(peer)
	go func() {
		defer client.Close()
		for range 6 {
			client.Write(make([]byte, 64<<10)) // 128 kB/s
			time.Sleep(500 * time.Millisecond)
		}
	}()
	if _, err := io.Copy(dst, source); err != nil {
		inTime.Error(err)
	}
}

func TestTrickleIntoCopyIsCutByMinReadRate(t *testing.T) {
	t.Parallel()
	const grace = 500 * time.Millisecond
	source, client := connect(t, newTracker(t, idle.Policy{
		IdleTimeout: time.Minute, MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: grace}}), nil)
	dst, peer := tcpPair(t)
	go readAll(peer)
	go func() {
		for {
			if _, err := client.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	start := time.Now()
	err, at := await(t, func() error { _, err := io.Copy(dst, source); return err })
	wantTimeout(t, err, idle.ReasonMinReadRate)
	notBefore(t, at, start, grace)
}

// An upload through a proxy whose upstream is slow: the client has sent what it
// could, and it is not its fault that nobody takes it.
func TestSourceIsNotCutBecauseSinkOfCopyIsSlow(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	g := together{t: t}
	defer g.wait.Wait()
	for name, policy := range map[string]idle.Policy{
		"ReadTimeout": {ReadTimeout: limit},
		"MinReadRate": {MinReadRate: idle.Rate{BytesPerSecond: 100 << 10, Grace: limit}},
	} {
		g.run(name, func(t *testing.T) {
			inTime := intime.Of(t, limit/3)
			source, client := connect(t, newTracker(t, policy), nil)
			dst, upstream := tcpPair(t)
			dst.SetWriteBuffer(16 << 10)
			upstream.SetReadBuffer(16 << 10)
			go client.Write(make([]byte, 64<<20))
			d := startDrain(upstream, 1<<10, 50*time.Millisecond)
			go source.WriteTo(dst)
			time.Sleep(8 * limit)
			if err := source.Timeout(); err != nil {
				inTime.Error(err)
			}
			d.end()
			dst.Close()
		})
	}
}

// A copy within the kernel is a write like any other.
func TestSinkOfCopyThatStopsIsCutByWriteTimeout(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	server, _ := connect(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
	source, feed := tcpPair(t)
	go feed.Write(make([]byte, 32<<20))
	start := time.Now()
	err, at := await(t, func() error { _, err := server.ReadFrom(source); return err })
	wantTimeout(t, err, idle.ReasonWrite)
	notBefore(t, at, start, limit)
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
