package httpconn

import (
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

// TestStreamsAreCounted by phase and by setting. Counts that somebody has got
// stay as they are.
func TestStreamsAreCounted(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, _ *wire) {
		before := l.Stats()
		for _, reason := range []idle.Reason{idle.ReasonWrite, idle.ReasonWrite, idle.ReasonMinReadRate} {
			l.counts.add(&idle.TimeoutError{Phase: "request stream", Reason: reason, Setting: l.streams.tracker.Setting("request stream", reason)})
		}
		after := l.Stats()
		if before.Phases["request stream"] != 0 || after.Phases["request stream"] != 3 {
			t.Errorf("%v, then %v", before.Phases, after.Phases)
		}
		if before.Limits["WriteTimeout"] != 0 || after.Limits["WriteTimeout"] != 2 || after.Limits["BodyRate"] != 1 {
			t.Errorf("%v, then %v", before.Limits, after.Limits)
		}
	})
}
