package httpsuite

import (
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// ofUploads are about bodies that the handler reads while they arrive.
var ofUploads = []promise{

	// Time in which the handler doesn't read isn't counted against the client, whether its
	// bytes have arrived or not.
	{"HandlerPausesReading", usual, func(t *testing.T, u under) {
		to := All(limit)
		to.HandshakeTimeout, to.KeepAliveTimeout = Patience, Patience
		to.BodyRate = idle.Rate{BytesPerSecond: 10 << 10, Grace: limit}
		const parts = 3
		paused := make(chan error, parts)
		s := u.start(t, to, func(r request) {
			body, b := r.Body(), make([]byte, len(half))
			for range parts {
				time.Sleep(2 * limit) // while bytes wait to be read
				_, err := io.ReadFull(body, b)
				time.Sleep(2 * limit) // and while none do
				paused <- err
			}
		}, streamBodies)
		c := s.Dial()
		c.Send(Post(parts * len(half)))
		for range parts {
			c.Send(half)
			if err := Receive(t, paused); err != nil {
				t.Fatal("reading after a pause: ", err)
			}
		}
		c.Want(http.StatusOK)
		s.WantNone()
	}},

	// A read deadline that a handler sets replaces the body's limits, for this request only. With
	// net/http, a zero deadline lifts them.
	{"OwnReadDeadline", usual, func(t *testing.T, u under) {
		ended := make(chan error, 1)
		h := func(r request) {
			switch r.Path() {
			case "/far":
				r.SetReadDeadline(time.Now().Add(Patience))
				defer r.SetReadDeadline(time.Time{})
			case "/zero":
				r.SetReadDeadline(time.Time{})
			case "/own":
				r.SetReadDeadline(time.Now().Add(3 * limit))
			}
			_, err := io.Copy(io.Discard, r.Body())
			ended <- err
		}
		begin := func(path string) (*Site, *Client, time.Time) {
			s := u.start(t, Only(limit, "BodyTimeout", "BodyRate"), h, streamBodies)
			c := s.Dial()
			return s, c, c.Send(postTo(path, 2*len(half)) + half)
		}
		lifts := []string{"/far"}
		if u.zeroDeadlineLifts {
			lifts = append(lifts, "/zero")
		}
		for _, path := range lifts {
			s, c, _ := begin(path)
			time.Sleep(3 * limit)
			c.Send(half)
			if err := Receive(t, ended); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			c.Want(http.StatusOK)
			s.WantNone()
			begun := c.Send(Post(2*len(half)) + half) // the limits apply again
			NotBefore(t, c.Refused(http.StatusRequestTimeout), begun, limit)
			if err := Receive(t, ended); !errors.As(err, new(*idle.TimeoutError)) {
				t.Errorf("in the request after %s: %v", path, err)
			}
		}
		s, _, begun := begin("/own")
		err := Receive(t, ended)
		NotBefore(t, time.Now(), begun, 3*limit)
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(*idle.TimeoutError)) {
			t.Errorf("with a deadline of its own: %v", err)
		}
		s.WantNone()
	}},
}
