package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
)

// TestH2CIsRefused: HTTP/2 of golang.org/x/net/http2/h2c would have no limits, because that hijacks connections, when a
// client begins with HTTP/2, or when it offers to upgrade. The error says what to use in its place.
func TestH2CIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused int
		h2c := func(w http.ResponseWriter, r *http.Request) { // as there
			if r.Method != "PRI" && r.Header.Get("Upgrade") != "h2c" {
				io.WriteString(w, r.Proto)
				return
			}
			if _, _, err := w.(http.Hijacker).Hijack(); errors.Is(err, errH2C) {
				refused++
			} else {
				t.Errorf("hijacking: %v", err)
			}
		}
		network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
		s := startOn(t, network, false, all(patience), h2c)
		s.Memory = network
		c := s.Dial()
		io.WriteString(c, preface)
		c.Drain()
		c = s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		c.Want(http.StatusOK)
		c.Close()
		if refused != 1 {
			t.Errorf("%d were refused, want the first", refused)
		}
		s.WantNone()
	})
}
