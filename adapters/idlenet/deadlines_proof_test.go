//go:build proof

package idlenet

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

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
