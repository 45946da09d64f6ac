package idlenet

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

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
