package httpsuite

import (
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// ofUploads are about bodies that the handler reads as they come.
var ofUploads = []promise{

	// Time in which the handler does not read is no offence of the client's, whether its
	// bytes are there already or not.
	{"HandlerPausesReading", usual, func(t0 *testing.T, u under) {
		t := intime.Of(t0, limit/2)
		to := All(limit)
		to.HandshakeTimeout, to.KeepAliveTimeout = Patience, Patience
		to.BodyRate = idle.Rate{BytesPerSecond: 10 << 10, Grace: limit}
		const parts = 3
		paused := make(chan error, parts)
		s := u.start(t, to, func(r Request) {
			body, b := r.Body(), make([]byte, len(half))
			for range parts {
				time.Sleep(2 * limit) // while some is there
				_, err := io.ReadFull(body, b)
				time.Sleep(2 * limit) // and nothing is
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

	// A handler's own read deadline takes the place of the body's limits, for this request
	// and not for the next. With net/http one that is zero lifts them.
	{"OwnReadDeadline", usual, func(t *testing.T, u under) {
		ended := make(chan error, 1)
		h := func(r Request) {
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
			return s, c, c.Send(PostTo(path, 2*len(half)) + half)
		}
		lifts := []string{"/far"}
		if u.ZeroDeadlineLifts {
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
			begun := c.Send(Post(2*len(half)) + half) // the limits are back
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
