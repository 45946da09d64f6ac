package httpconn

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// TestNoAnswerWithinAResponse: what times out when the response has begun is not answered,
// whether the body has been read before, or after, and whenever the limit came.
func TestNoAnswerWithinAResponse(t *testing.T) {
	const begun = "HTTP/1.1 200 OK\r\n\r\n"
	respond := func(c *Conn) { c.Write([]byte(begun)) }
	read := func(c *Conn) { c.SetReadDeadline(time.Time{}) } // as net/http at the end of a body
	own := func(c *Conn) {
		SetLimits("httpconn", c, httplimits.RequestLimits{HandlerTimeout: time.Second})
	}
	for name, test := range map[string]struct {
		limit time.Duration
		does  []func(*Conn)
	}{
		"read first":      {time.Second, []func(*Conn){read, respond}},
		"responded first": {time.Second, []func(*Conn){respond, read}},
		"limited later":   {httplimits.Off, []func(*Conn){read, respond, own}},
		"limited first":   {httplimits.Off, []func(*Conn){own, respond, read}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := unlimited()
			limits.HandlerTimeout = test.limit
			limits.BodyTimeout, limits.WriteTimeout = httplimits.Off, httplimits.Off
			inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				c.HeaderRead()
				for _, f := range test.does {
					f(c)
				}
				c.Read(make([]byte, 1))
				if got := string(w.written); c.Timeout() == nil || got != begun {
					t.Errorf("timed out by %v; the client got %q", c.Timeout(), got)
				}
			})
		})
	}
}

// TestFarewellThatPanics does not keep the listener's timeouts from ending.
func TestFarewellThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := unlimited()
		limits.Idle.Logger = slog.New(slog.DiscardHandler)
		l, c, _ := accepted(t, limits)
		c.Hijack()
		on := httplimits.Callbacks{OnEnd: func(*idle.TimeoutError) { panic("on purpose") }}
		if err := Watch("httpconn", c, idle.Policy{IdleTimeout: time.Second}, on); err != nil {
			t.Fatal(err)
		}
		l.Close()
		c.Read(make([]byte, 1))
		time.Sleep(time.Minute) // nobody calls c.Close
		synctest.Wait()
		if !l.isOver() {
			t.Error("the trackers go on")
		}
		if n := l.Stats().Panics; n != 1 {
			t.Errorf("%d panics", n)
		}
	})
}

// TestServedWhenItsHeaderCameInParts has a first request without a body whose header takes several
// Reads. When it is answered, the connection is not new any more: it doesn't count as a handshake,
// and a drain doesn't wait for its first request.
func TestServedWhenItsHeaderCameInParts(t *testing.T) {
	inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		for _, part := range []string{"G", "ET / HTTP/1.1\r\n", "Host: a\r\n\r\n"} {
			w.sends(part)
			if _, err := c.Read(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		c.Idle()
		if !c.served.Load() {
			t.Error("it is still new")
		}
		o, err := l.tracker.Drain(idle.Drain{})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		c.Read(make([]byte, 1))
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("it was drained after %v", took)
		}
		c.Close()
		<-o.Done()
	})
}
