//go:build proof

package idlenet

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Wrappers of other libraries, which show the socket inside by one method or the other.
type (
	netConned struct{ net.Conn }
	rawed     struct{ net.Conn }
)

func (w netConned) NetConn() net.Conn { return w.Conn }
func (w rawed) Raw() net.Conn         { return w.Conn }

// A peer that doesn't read is reset, also behind a wrapper, because the kernel would keep its bytes
// for minutes. One that merely sends nothing gets an end in good order.
func TestWhoTakesNothingIsReset(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"socket":  func(nc net.Conn) net.Conn { return nc },
		"NetConn": func(nc net.Conn) net.Conn { return netConned{nc} },
		"Raw":     func(nc net.Conn) net.Conn { return rawed{nc} },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); testReset(t, wrap) })
	}
}

func testReset(t *testing.T, wrap func(net.Conn) net.Conn) {
	const limit = 300 * time.Millisecond
	for _, closes := range []bool{true, false} { // or the tracker does
		tracker := newTracker(t, idle.Policy{WriteTimeout: limit, ReadTimeout: limit})
		ends := func(c *Conn) {
			if closes {
				c.Close()
			} else {
				eventually(t, "it is closed", func() bool { return errors.Is(c.NetConn().SetDeadline(time.Time{}), net.ErrClosed) })
			}
		}
		connect := func() (server *Conn, client *net.TCPConn) {
			bare, client := tcpPair(t)
			return wrapped(t, wrap(bare), tracker, nil), client
		}
		server, client := connect()
		err, _ := await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
		wantTimeout(t, err, idle.ReasonWrite)
		ends(server)
		silent, sender := connect()
		err, _ = await(t, func() error { return read1(silent) })
		wantTimeout(t, err, idle.ReasonRead)
		ends(silent)
		client.SetReadDeadline(time.Now().Add(patience))
		if err := readAll(client); errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("who takes nothing gets %v", err)
		}
		sender.SetReadDeadline(time.Now().Add(patience))
		if err := readAll(sender); err != io.EOF {
			t.Errorf("who sends nothing gets %v", err)
		}
	}
}

// Splice takes nothing from a socket whose end has been decided.
func TestLateByteIsNotSpliced(t *testing.T) {
	t.Parallel()
	bare, client := tcpPair(t)
	dst, _ := tcpPair(t)
	arrive := func(any) string {
		client.Write([]byte("x"))
		time.Sleep(50 * time.Millisecond) // for who might take it
		return ""
	}
	tracker, err := idle.New(idle.Policy{ReadTimeout: 100 * time.Millisecond}, &idle.Options{Label: arrive, OnEnds: func([]idle.End) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	n, err := wrapped(t, bare, tracker, nil).WriteTo(dst)
	if n > 0 {
		t.Errorf("%d bytes were delivered", n)
	}
	wantTimeout(t, err, idle.ReasonRead)
}

// TestDrainWaitsForBytesOnTheirWay has a client that is reading what the kernel has accepted
// long ago, and that sends something now and then. If the connection were closed meanwhile, the
// kernel would reset it, and the rest would be lost.
func TestDrainWaitsForBytesOnTheirWay(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const size = 1 << 20
	tracker := newTracker(t, idle.Policy{WriteTimeout: time.Minute})
	server, client := connect(t, tracker, nil)
	if err := client.SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	go func() { io.Copy(io.Discard, server); server.Close() }()
	if _, err := tracker.Drain(idle.Drain{ForceAfter: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	got := 0
	for b := make([]byte, 32<<10); got < size; time.Sleep(10 * time.Millisecond) {
		n, err := io.ReadFull(client, b)
		if got += n; err != nil {
			t.Fatalf("got %d of %d bytes, then %v", got, size, err)
		}
		client.Write([]byte("ok"))
	}
	if err := readAll(client); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the drain doesn't end the connection, though all bytes have arrived")
	}
}

// What only the kernel saw it knows to a few milliseconds (a jiffy), which must
// not make a timeout early. Ticks are long here, so that the limits of
// some connections pass just when a tick begins.
func TestNeverEarlyAfterBytesThatOnlyTheKernelSaw(t *testing.T) {
	needLinux(t)
	const long, limit = 101 * time.Millisecond, 303 * time.Millisecond // no multiples of a jiffy
	tracker, err := idle.New(idle.Policy{IdleTimeout: limit}, &idle.Options{Tick: long})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracker.Close() })
	g := together{t: t}
	defer g.wait.Wait()
	for i := range 60 {
		phase := time.Duration(i) * time.Millisecond / 2
		g.run("spliced", func(t *testing.T) {
			begun := time.Now()
			server, client := connect(t, tracker, nil)
			upstream, far := tcpPair(t)
			go readAll(far)
			last, written := make(chan time.Time, 1), make(chan time.Time, 1)
			time.AfterFunc(limit-long+phase, func() {
				last <- time.Now()
				client.Write([]byte("x"))
				written <- time.Now()
			})
			err, at := await(t, func() error { _, err := server.WriteTo(upstream); return err })
			wantTimeout(t, err, idle.ReasonIdle)
			notBefore(t, at, begun, limit)
			if late := (<-written).Sub(at); late > -limit/2 { // what came late counts for nothing
				t.Skipf("inconclusive: the machine let the client wait, until %v after it had timed out", late)
			}
			notBefore(t, at, <-last, limit)
		})
	}
}

// Everything at once, for the race detector, and to see that each connection
// has one outcome.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	policy := idle.Policy{
		ExplicitUse: true, IdleTimeout: 20 * ms, ReadTimeout: 20 * ms, WriteTimeout: 20 * ms, MaxAge: 60 * ms, MaxAgeJitter: 50 * ms, MaxAgeGrace: 10 * ms,
		Heartbeat:   idle.Heartbeat{Interval: 10 * ms, Timeout: 10 * ms, Misses: 2},
		MinReadRate: idle.Rate{BytesPerSecond: 10, Grace: 20 * ms}, MinWriteRate: idle.Rate{BytesPerSecond: 10, Grace: 20 * ms},
	}
	tracker := newTracker(t, policy)
	exempt, err := tracker.Phase(idle.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	usual, err := tracker.Phase(policy)
	if err != nil {
		t.Fatal(err)
	}
	opts := &Options{
		Ping:      func(c *Conn) error { _, err := c.Write([]byte("?")); return err },
		OnTimeout: func(*Conn, *idle.TimeoutError) bool { return rand.IntN(3) == 0 },
		OnDrain:   func(c *Conn) { c.SetDeadline(time.Now().Add(time.Second)) },
	}
	var wait sync.WaitGroup
	for range 40 {
		wait.Go(func() {
			server, client := connect(t, tracker, opts)
			var users sync.WaitGroup
			stop := time.Now().Add(200 * ms)
			again := func(op func()) {
				users.Go(func() {
					for time.Now().Before(stop) {
						op()
						time.Sleep(time.Duration(rand.IntN(3)) * ms)
					}
				})
			}
			again(func() { client.Write(make([]byte, 100)) })
			again(func() { client.SetReadDeadline(time.Now().Add(ms)); client.Read(make([]byte, 1000)) })
			for range 2 {
				again(func() { server.Read(make([]byte, 10)) })
				again(func() { server.Write(make([]byte, 1000)) })
			}
			again(func() { server.SetReadDeadline(time.Now().Add(ms)) })
			again(func() { server.SetWriteDeadline(time.Now().Add(ms)) })
			again(func() { server.SetDeadline(time.Time{}) })
			again(func() { server.Enter(exempt); server.Enter(usual) })
			again(func() { server.Use(); server.Beat(); server.Timeout(); tracker.Stats() })
			if rand.IntN(2) == 0 {
				time.Sleep(time.Duration(rand.IntN(150)) * ms)
				if err := server.Close(); err != nil {
					t.Error(err)
				}
				server.Close()
			}
			users.Wait()
			server.Close()
		})
	}
	wait.Wait()
	eventually(t, "each has one outcome", func() bool { // a timeout that was first may be counted after Close has returned
		st := tracker.Stats()
		ended := st.Closed
		for _, n := range st.TimedOut {
			ended += n
		}
		return st.Tracked == 40 && ended == 40 && st.Live == 0
	})
}

// TestAllocatedByInit pins all that a connection takes: the Conn, a place in a slice of its
// shard, which doubles now and then, and on Linux a kernel.Stream of 24 bytes.
func TestAllocatedByInit(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	setup := newSetup(nil)
	bare, _ := tcpPair(t)
	const most = 208 + 24 + 48
	all := make([]*Conn, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = new(Conn)
		if err := all[i].conn().Init(bare, tracker, all[i], &setup.Setup); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(len(all)); each > most {
		t.Errorf("a connection takes %d bytes, at most %d are allowed", each, most)
	}
}
