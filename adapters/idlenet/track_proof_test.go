//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// What the peer has taken before tracking began buys it no time, nor does what the
// kernel has taken since.
func TestTrackCountsFromNowOn(t *testing.T) {
	needLinux(t)
	t.Parallel()
	rate := idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 64 << 10, Grace: 200 * time.Millisecond}}
	for name, before := range map[string]idle.Policy{"counted before": rate, "not counted before": {IdleTimeout: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const much = 8 << 20
			server, client := connect(t, newTracker(t, before), nil)
			client.SetReadBuffer(16 << 10) // what is acknowledged, and not read, is little
			server.conn().Untrack()
			taken := make(chan error, 1)
			go func() { _, err := io.CopyN(io.Discard, client, much); taken <- err }()
			if _, err := server.Write(make([]byte, much)); err != nil {
				t.Fatal(err)
			}
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
			if err := server.conn().Track(newTracker(t, rate), server); err != nil {
				t.Fatal(err)
			}
			err, _ := await(t, func() error {
				for {
					if _, err := server.Write(make([]byte, 64<<10)); err != nil {
						return err
					}
				}
			})
			wantTimeout(t, err, idle.ReasonMinWriteRate)
			server.Close()
		})
	}
}

// A connection that is not tracked, and forgotten, is collected and closed.
func TestUntrackedIsCollected(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, again := range []bool{false, true} {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		func() {
			bare, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c, err := wrapConn(bare, tracker, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.conn().Untrack()
			if again {
				if err := c.conn().Track(tracker, c); err != nil {
					t.Fatal(err)
				}
				c.conn().Untrack()
			}
		}()
		eventually(t, "the peer sees the end", func() bool {
			runtime.GC()
			client.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := client.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		})
	}
}
