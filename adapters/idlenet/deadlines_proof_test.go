//go:build proof

package idlenet

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Likewise where the kernel counts what is taken.
func TestPolledWritesThatAreCountedHitWriteTimeout(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit, every = 300 * time.Millisecond, 20 * time.Millisecond
	server, _ := connect(t, newTracker(t, idle.Policy{
		WriteTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: 10 * patience}}), nil)
	start := time.Now()
	err, at := await(t, func() error { return pollWrites(server, every, largeStep) })
	wantTimeout(t, err, idle.ReasonWrite)
	notBefore(t, at, start, limit)
}

// Servers that set a deadline before each read never see a gap in which the
// poke of a timeout is lost.
func TestDeadlineBeforeEachReadDoesNotHideTimeout(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond})
	g := together{t: t}
	defer g.wait.Wait()
	for range 20 {
		g.run("", func(t *testing.T) {
			server, _ := connect(t, tracker, nil)
			err, _ := await(t, func() error {
				for {
					server.SetReadDeadline(time.Now().Add(time.Millisecond))
					if err := read1(server); server.Timeout() != nil {
						return err
					}
				}
			})
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			server.SetReadDeadline(time.Now().Add(time.Hour))
			err, _ = await(t, func() error { return read1(server) })
			wantTimeout(t, err, idle.ReasonIdle)
		})
	}
}
