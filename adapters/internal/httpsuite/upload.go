package httpsuite

import (
	"errors"
	"fmt"
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
	// Every timeout has one outcome: the client is answered, it is counted as what it was,
	// and the handler gets the error that says so.
	{"HandlerSeesTheTimeout", usual, func(t *testing.T, u under) {
		const n = 30
		ended := make(chan error, n)
		to := Only(limit, "BodyTimeout")
		var sent Gate // all of them
		to.OnTimeout = sent.Keep
		s := u.start(t, to, func(r Request) {
			_, err := io.Copy(io.Discard, r.Body())
			ended <- err
			io.WriteString(r, "too late")
		}, streamBodies)
		var clients []*Client
		for range n {
			c := s.Dial()
			c.Send(Post(2*len(half)) + half)
			clients = append(clients, c)
		}
		sent.Open()
		for _, c := range clients {
			c.Refused(http.StatusRequestTimeout)
			WantTimeout(t, Receive(t, ended), "request", idle.ReasonRead)
		}
		s.WantOnly(n, "request", idle.ReasonRead)
	}},

	// Time in which the handler does not read is no offence of the client's, whether its
	// bytes are there already or not.
	{"HandlerPausesReading", usual, func(t0 *testing.T, u under) {
		for _, ahead := range []bool{true, false} {
			t0.Run(fmt.Sprintf("ahead=%v", ahead), func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, limit/2)
				to := All(limit)
				to.HandshakeTimeout, to.KeepAliveTimeout = Patience, Patience
				to.BodyRate = idle.Rate{BytesPerSecond: 10 << 10, Grace: limit}
				parts, size := 3, 1<<20
				if !ahead {
					size = len(half)
				}
				paused := make(chan error, parts)
				s := u.start(t, to, func(r Request) {
					body, b := r.Body(), make([]byte, size)
					for range parts {
						if ahead {
							time.Sleep(2 * limit)
						}
						_, err := io.ReadFull(body, b)
						if !ahead { // and nothing is there
							time.Sleep(2 * limit)
						}
						if paused <- err; err != nil {
							return
						}
					}
				}, streamBodies)
				c := s.Dial()
				c.Send(Post(parts * size))
				sent := make([]byte, size)
				if ahead {
					go func() {
						for range parts {
							c.Write(sent)
						}
					}()
				}
				for range parts {
					if !ahead {
						c.Send(string(sent))
					}
					if err := Receive(t, paused); err != nil {
						t.Fatal("reading after a pause: ", err)
					}
				}
				c.Want(http.StatusOK)
				s.WantNone()
			})
		}
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
