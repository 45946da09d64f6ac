package httpconn

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestHeaderIsNotEarly: a header that begins while the driver is late, here
// because OnPass takes long, has all of its time nonetheless.
func TestHeaderIsNotEarly(t *testing.T) {
	for _, second := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const limit = 500 * time.Millisecond
			var w *wire
			var begun time.Time
			limits := distinct()
			limits.HandshakeTimeout, limits.HeaderTimeout = 100*time.Millisecond, limit
			limits.Idle.Shards = 1
			limits.Idle.OnPass = func(time.Duration) {
				if begun.IsZero() {
					time.Sleep(25 * time.Millisecond)
					begun = time.Now()
					w.sends("G")
					time.Sleep(5 * time.Millisecond)
				}
			}
			l, first, _ := accepted(t, limits)
			go func() { first.Read(make([]byte, 1)); first.Close() }() // times out, and makes the driver late
			time.Sleep(50 * time.Millisecond)
			w = newWire()
			l.ln.(wires).next <- w
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			Find(l, c).Accepted(c)
			if second {
				time.AfterFunc(limit/2, func() { w.sends("E") })
			}
			for err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			if took := time.Since(begun); took < limit {
				t.Errorf("a second byte: %v; %v after %v, the limit is %v", second, err, took, limit)
			}
			c.Close()
			l.Close()
		})
	}
}

// TestNotAnsweredBeforeAccepted: what a server has not begun to serve, as it may
// be about to refuse it, has the limit of the handshake, and no answer.
func TestNotAnsweredBeforeAccepted(t *testing.T) {
	for _, accept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ls := wires{next: make(chan *wire, 1)}
			l, err := NewListener("httpconn", ls, distinct(), NoHTTP2)
			if err != nil {
				t.Fatal(err)
			}
			w := newWire()
			ls.next <- w
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			want, answer := Handshake, ""
			if accept {
				Find(l, c).Accepted(c)
				want, answer = Header, "HTTP/1.1 408 "
			}
			w.sends("G")
			for err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			var timeout *idle.TimeoutError
			if !errors.As(err, &timeout) || timeout.Phase != want.String() {
				t.Errorf("accepted: %v; %v, want a timeout of the %v", accept, err, want)
			}
			if got := string(w.written); !strings.HasPrefix(got, answer) || answer == "" && got != "" {
				t.Errorf("accepted: %v; answered %q", accept, got)
			}
			c.Close()
			l.Close()
		})
	}
}
