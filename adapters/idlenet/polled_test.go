package idlenet

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A reader polls once, rests for longer than the limit, and then polls again and again.
// The rest does not count, and the later polls are one wait.
func TestPolledReadsAfterALongRestHitReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, every = 200 * time.Millisecond, 70 * time.Millisecond
		server, _ := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
		server.SetReadDeadline(time.Now().Add(every))
		read1(server)
		time.Sleep(11 * limit / 2)
		start := time.Now()
		err, at := await(t, func() error {
			for server.Timeout() == nil && time.Since(start) < 5*limit {
				server.SetReadDeadline(time.Now().Add(every))
				read1(server)
			}
			return read1(server)
		})
		wantTimeout(t, err, idle.ReasonRead)
		onTime(t, at, start, limit)
	})
}

// The same for writes.
func TestPolledWritesAfterALongRestHitWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, every = 200 * time.Millisecond, 70 * time.Millisecond
		server, _ := pipe(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
		server.SetWriteDeadline(time.Now().Add(every))
		server.Write([]byte("x"))
		time.Sleep(11 * limit / 2)
		start := time.Now()
		err, at := await(t, func() error {
			for server.Timeout() == nil && time.Since(start) < 5*limit {
				server.SetWriteDeadline(time.Now().Add(every))
				server.Write([]byte("x"))
			}
			_, err := server.Write([]byte("x"))
			return err
		})
		wantTimeout(t, err, idle.ReasonWrite)
		onTime(t, at, start, limit)
	})
}

// ReadAhead applies to a read that is waiting already.
func TestReadAheadOfAReadThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		server, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
		ended := make(chan error, 1)
		go func() { ended <- read1(server) }()
		time.Sleep(limit / 2)
		server.conn().ReadAhead(true)
		time.Sleep(3 * limit)
		client.Write([]byte("x"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What a pipe takes pays for its time, as nobody else counts it.
func TestWritesToPipePay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace = 200 * time.Millisecond
		server, client := pipe(t, newTracker(t, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 100, Grace: grace}}), nil)
		const writes = 100
		done := make(chan struct{})
		defer func() { <-done }()
		defer server.Close()
		go func() {
			defer close(done)
			for range writes { // 200 bytes a second
				time.Sleep(50 * time.Millisecond)
				io.ReadFull(client, make([]byte, 10))
			}
		}()
		for range writes {
			if _, err := server.Write(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
