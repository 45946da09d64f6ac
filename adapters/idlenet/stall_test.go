//go:build proof

package idlenet

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// expiry waits until a connection times out.
func expiry(t *testing.T, server *Conn) time.Time {
	t.Helper()
	eventually(t, "timed out", func() bool { return server.Timeout() != nil })
	return time.Now()
}

// A server that was slow to read must not hold it against the client.
func TestUnreadInputIsGrantedOnceButNotTwiceInARow(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit = 200 * time.Millisecond
	inTime := intime.Of(t, limit/4)
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
	sent := time.Now()
	client.Write([]byte("x"))
	at := expiry(t, server)
	notBefore(inTime, at, sent, 2*limit-2*tick) // once for the byte, and once for its waiting unread
	if server.Timeout().Reason != idle.ReasonIdle {
		t.Error(server.Timeout())
	}
}

func TestServerThatReadsAfterAStallKeepsTheConnection(t0 *testing.T) {
	t0.Parallel()
	needLinux(t0)
	const limit = 500 * time.Millisecond
	t := intime.Of(t0, limit/5)
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
	for range 3 { // the grant is good again after each read
		client.Write([]byte("x"))
		time.Sleep(limit + limit/2)
		if err := read1(server); err != nil {
			t.Fatal(err)
		}
	}
}

// What only the kernel saw it knows to a few milliseconds (a jiffy), which must
// not make a timeout early. Ticks are long here, so that of many connections
// some have their limit pass just at the beginning of one.
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
			notBeforeLast(t, at, begun, <-last, <-written, limit)
		})
	}
}

// notBeforeLast is notBefore for a client that wanted to be in time: to begin to write at last, and
// to have written before the limit had passed. If it was late, what it wrote counts for nothing.
func notBeforeLast(t testing.TB, at, begun, last, written time.Time, limit time.Duration) {
	t.Helper()
	notBefore(t, at, begun, limit)
	if late := written.Sub(at); late > -limit/2 {
		t.Skipf("inconclusive: the machine let the client wait, until %v after it had timed out", late)
	}
	notBefore(t, at, last, limit)
}
