package idlenet

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// The tests of this file are about connections that one goroutine at a time uses,
// whose operations go a shorter way, but for the first of each tick.

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

// The only reader has the limits of reading as several have: while it reads, and
// not while it does something else.
func TestSequentialUseHasTheSameLimitsOfReading(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	for _, on := range []bool{true, false} {
		server, client := connect(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
		server.Sequential(true)
		server.Sequential(on)
		for range 20 { // more of them than ticks
			client.Write([]byte("x"))
			if err := read1(server); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(limit/10, func() { client.Write([]byte("x")) }) // a read that lasts for ticks
		if err := read1(server); err != nil {
			t.Fatal(err)
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
}

// One writer has the limits of writing as several have, and can become several.
func TestSequentialUseHasTheSameLimitsOfWriting(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	for _, on := range []bool{true, false} {
		server, client := connect(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
		server.Sequential(true)
		if counts := server.ask().Tallied; counts != (server.marks.Load()&oneWriter != 0) {
			t.Errorf("the kernel counts: %v; yet one writer makes the marks %b", counts, server.marks.Load())
		}
		server.Sequential(on)
		if !on && server.marks.Load()&(oneReader|oneWriter) != 0 {
			t.Error("it is not taken back")
		}
		if _, err := server.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(client, b); err != nil || string(b) != "hello" {
			t.Fatalf("got %q, %v", b, err)
		}
		start := time.Now()
		err, at := await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
		wantTimeout(t, err, idle.ReasonWrite)
		notBefore(t, at, start, limit)
	}
	server, _ := pipe(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
	server.Sequential(true)
	if server.marks.Load()&oneWriter != 0 {
		t.Error("a pipe's writes go without the lock")
	}
}

// What has arrived after ticks of waiting is noted.
func TestLongReadOfTheOnlyReaderIsAnActivity(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: patience}), nil)
	server.Sequential(true)
	inTime := intime.Of(t, tick/2)
	const times = 20
	noted := 0
	for range times {
		client.Write([]byte("x"))
		if err := read1(server); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*tick, func() { client.Write([]byte("x")) })
		if err := read1(server); err != nil {
			t.Fatal(err)
		}
		if server.track.Touched() { // not, if a tick ended just now
			noted++
		}
	}
	if noted < times/2 {
		inTime.Errorf("%d of %d are", noted, times)
	}
}

// Bytes pay for their time, however fast they come.
func TestBurstPaysTheOnlyReader(t *testing.T) {
	t.Parallel()
	const grace, size = 300 * time.Millisecond, 200_000
	server, client := connect(t, coarse(t, idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 10_000, Grace: grace}}), nil)
	server.Sequential(true)
	go client.Write(make([]byte, size))
	for n := 0; n < size; {
		m, err := server.Read(make([]byte, 1000))
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	time.AfterFunc(6*grace, func() { client.Write([]byte("x")) })
	if err := read1(server); err != nil {
		t.Errorf("it has paid for 20 s: %v", err)
	}
}

// Nothing is read any more once the last word is being said.
func TestOnlyReaderGetsNothingDuringOnEnd(t *testing.T) {
	t.Parallel()
	var ending atomic.Bool
	server, client := connect(t, coarse(t, idle.Policy{MaxAge: 300 * time.Millisecond}), &Options{OnEnd: func(*Conn, *idle.TimeoutError) {
		ending.Store(true)
		time.Sleep(200 * time.Millisecond)
	}})
	server.Sequential(true)
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
func TestPollOfTheOnlyReaderIsForgotten(t *testing.T) {
	t.Parallel()
	const limit = 1600 * time.Millisecond
	server, client := connect(t, coarse(t, idle.Policy{ReadTimeout: limit}), nil)
	server.Sequential(true)
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
