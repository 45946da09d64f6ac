//go:build proof

package idlenet

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// The tests of this file are about operations that are not the first of a tick,
// which have less to record.

// coarse returns a tracker with ticks so long that most operations are not the
// first of one.
func coarse(t *testing.T, p idle.Policy) *idle.Tracker {
	tracker, err := idle.New(p, &idle.Options{Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracker.Close() })
	return tracker
}

// A read is waited for while it lasts, and not while the handler does something
// else, whatever was noted of reads before.
func TestLimitOfReadingAfterManyReads(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	inTime := intime.Of(t, limit/4)
	server, client := connect(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
	for range 20 { // more of them than ticks
		client.Write([]byte("x"))
		if err := read1(server); err != nil {
			inTime.Fatal(err)
		}
	}
	time.AfterFunc(limit/10, func() { client.Write([]byte("x")) }) // a read that lasts for ticks
	if err := read1(server); err != nil {
		inTime.Fatal(err)
	}
	time.Sleep(2 * tick)
	if n, err := server.Read(nil); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	time.Sleep(3 * limit)
	if err := server.Timeout(); err != nil {
		t.Fatal("nobody was reading, but", err)
	}
	start := time.Now()
	err, at := await(t, func() error { return read1(server) })
	wantTimeout(t, err, idle.ReasonRead)
	notBefore(t, at, start, limit)
}

// Bytes pay for their time, however fast they come.
func TestBurstPays(t *testing.T) {
	t.Parallel()
	const grace, size = 300 * time.Millisecond, 200_000
	inTime := intime.Of(t, grace/4)
	server, client := connect(t, coarse(t, idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 10_000, Grace: grace}}), nil)
	go client.Write(make([]byte, size))
	for n := 0; n < size; {
		m, err := server.Read(make([]byte, 1000))
		if err != nil {
			inTime.Fatal(err)
		}
		n += m
	}
	time.AfterFunc(6*grace, func() { client.Write([]byte("x")) })
	if err := read1(server); err != nil {
		t.Errorf("it has paid for 20 s: %v", err)
	}
}

// Nothing is read any more once the last word is being said.
func TestReaderGetsNothingDuringOnEnd(t *testing.T) {
	t.Parallel()
	var ending atomic.Bool
	server, client := connect(t, coarse(t, idle.Policy{MaxAge: 300 * time.Millisecond}), &Options{OnEnd: func(*Conn, *idle.TimeoutError) {
		ending.Store(true)
		time.Sleep(200 * time.Millisecond)
	}})
	go func() {
		for err := error(nil); err == nil; {
			_, err = client.Write(make([]byte, 100))
		}
	}()
	for {
		late := ending.Load()
		n, err := server.Read(make([]byte, 10))
		if late && n > 0 {
			t.Fatal("it gets bytes")
		}
		if err != nil {
			wantTimeout(t, err, idle.ReasonMaxAge)
			return
		}
	}
}

// A poll that got nothing is forgotten with the next byte: the wait after that is
// another one.
func TestPollIsForgotten(t *testing.T) {
	t.Parallel()
	const limit = 1600 * time.Millisecond
	server, client := connect(t, coarse(t, idle.Policy{ReadTimeout: limit}), nil)
	inTime := intime.Of(t, limit/4)
	server.SetReadDeadline(time.Now().Add(time.Millisecond))
	wantUserTimeout(t, read1(server))
	server.SetReadDeadline(time.Time{})
	client.Write([]byte("x"))
	if err := read1(server); err != nil {
		t.Fatal(err)
	}
	time.Sleep(limit * 3 / 4)
	time.AfterFunc(limit/2, func() { client.Write([]byte("x")) })
	if err := read1(server); err != nil {
		inTime.Errorf("it was waited for half of the limit: %v", err)
	}
}
