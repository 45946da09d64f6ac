//go:build proof

package idlenet

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// connectUnix returns both ends of a Unix socket, the server's wrapped.
func connectUnix(t *testing.T, p idle.Policy) (server *Conn, client net.Conn) {
	t.Helper()
	bare, client := socketPair(t, "unix", filepath.Join(t.TempDir(), "s"))
	server, err := wrapConn(bare, newTracker(t, p), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, client
}

// Where the kernel does not tell of progress, steps must be small enough.
func TestSlowButSteadyReaderOfUnixSocketIsNeverCut(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	bare, client := socketPair(t, "unix", filepath.Join(t.TempDir(), "s"))
	slowlyDrained(t, bare, client, idle.Policy{WriteTimeout: limit})
}

// Nor is it idle, though the writer is not woken before most of the queue is empty.
func TestSlowButSteadyReaderOfUnixSocketIsNotIdle(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit = 2 * time.Second
	bare, client := socketPair(t, "unix", filepath.Join(t.TempDir(), "s"))
	slowlyDrained(t, bare, client, idle.Policy{IdleTimeout: limit})
}

// Nor is it cut for its rate, though the kernel takes nothing before most of the queue has been read.
func TestSlowButSteadyReaderOfUnixSocketKeepsTheRate(t *testing.T) {
	t.Parallel()
	needLinux(t)
	rate := idle.Rate{BytesPerSecond: 4 << 10, Grace: 500 * time.Millisecond}
	server, client := connectUnix(t, idle.Policy{MinWriteRate: rate})
	d := startDrain(client, 1<<10, 125*time.Millisecond) // 8 KiB/s, so that it reads a step in 2 s
	result := make(chan error, 1)
	go func() { result <- writeHuge(server) }()
	select {
	case err := <-result:
		d.end()
		d.pace.mustHaveBeen(t, rate.Grace/2)
		t.Errorf("ended with %v", err)
	case <-time.After(10 * time.Second):
		d.end()
	}
}

// One that reads at an eighth of the rate is cut.
func TestReaderOfUnixSocketThatIsTooSlowIsCut(t *testing.T) {
	t.Parallel()
	needLinux(t)
	rate := idle.Rate{BytesPerSecond: 64 << 10, Grace: 500 * time.Millisecond}
	server, client := connectUnix(t, idle.Policy{MinWriteRate: rate})
	d := startDrain(client, 1<<10, 125*time.Millisecond) // 8 KiB/s
	defer d.end()
	begun := time.Now()
	err, at := await(t, func() error { return writeHuge(server) })
	wantTimeout(t, err, idle.ReasonMinWriteRate)
	notBefore(t, at, begun, rate.Grace)
}

func TestReaderOfUnixSocketThatStopsIsCutByWriteTimeout(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	server, client := connectUnix(t, idle.Policy{WriteTimeout: limit})
	if _, err := server.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := read1(client); err != nil {
		t.Fatal(err)
	}
	last := time.Now() // and nothing is taken any more
	err, at := await(t, func() error { return writeHuge(server) })
	wantTimeout(t, err, idle.ReasonWrite)
	notBefore(t, at, last, limit)
	t.Logf("cut %v after the last read, for a limit of %v", at.Sub(last), limit)
}

// A peer that takes nothing of what a write has put into the queue is given no more
// than the limit, whichever it is, and neither is one that takes nothing after a
// write that needed not wait.
func TestPeerOfUnixSocketThatTakesNothingIsCutOnTime(t *testing.T) {
	needLinux(t)
	const limit = 500 * time.Millisecond
	writes := func(size int) func(*Conn) error {
		return func(server *Conn) error {
			if _, err := server.Write(make([]byte, size)); err != nil {
				return err
			}
			return read1(server)
		}
	}
	for name, c := range map[string]struct {
		policy idle.Policy
		reason idle.Reason
		op     func(*Conn) error
	}{
		"idle, in a write":     {idle.Policy{IdleTimeout: limit}, idle.ReasonIdle, writes(8 << 20)},
		"idle, after a write":  {idle.Policy{IdleTimeout: limit}, idle.ReasonIdle, writes(20 << 10)},
		"write":                {idle.Policy{WriteTimeout: limit}, idle.ReasonWrite, writes(8 << 20)},
		"idle, small writes":   {idle.Policy{IdleTimeout: limit}, idle.ReasonIdle, writeBits},
		"write, and then idle": {idle.Policy{WriteTimeout: limit, IdleTimeout: limit + limit/2}, idle.ReasonWrite, writeBits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime := intime.Of(t, limit/4)
			server, _ := connectUnix(t, c.policy)
			begun := time.Now()
			err, at := await(t, func() error { return c.op(server) })
			wantTimeout(t, err, c.reason)
			notBefore(t, at, begun, limit)
			if took := at.Sub(begun); took > limit+limit/2 {
				inTime.Errorf("cut after %v", took)
			}
		})
	}
}

// writeBits writes without end, a little at a time.
func writeBits(c *Conn) error {
	for b := make([]byte, 1000); ; {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}

// Small writes fit into the kernel's buffer, and don't wait. AwaitAcked makes them count as a write that
// waits: for its rate too.
func TestAwaitAckedSeesTheReader(t *testing.T) {
	t.Parallel()
	needLinux(t)
	server, client := connect(t, newTracker(t, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 20 << 10, Grace: time.Second}}), nil)
	client.SetReadBuffer(16 << 10)
	if _, err := server.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if !server.conn().AwaitAcked() {
		t.Fatal("all is acknowledged, though the client hasn't read")
	}
	d := startDrain(client, 16<<10, 50*time.Millisecond) // 320 KiB/s
	time.Sleep(2 * time.Second)
	if err := server.Timeout(); err != nil {
		d.end()
		d.pace.mustHaveBeen(t, time.Second/2)
		t.Error(err)
		return
	}
	d.end()
}
