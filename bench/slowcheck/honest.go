package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A visitor is an honest client of net/http, with one connection.
type visitor struct {
	*target
	ctx  context.Context
	conn *http.ClientConn
}

// visitServer makes the connection of an honest case, and lives it.
func (c slowCase) visitServer(ctx context.Context, t *target) (connected bool, err error) {
	kind := server.HTTP
	switch {
	case c.protocol() == "h2":
		kind = server.HTTP2
	case t.scheme == "https":
		kind = server.HTTPS
	}
	conn, err := server.DialWeb(ctx, kind, t.address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	return true, c.visit(&visitor{t, ctx, conn})
}

// ask makes a request.
func (v *visitor) ask(method, path string, body io.Reader, length int64, fields ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(v.ctx, method, v.scheme+"://"+v.host+path, body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	req.ContentLength = length
	resp, err := v.conn.RoundTrip(req)
	if err == nil && resp.StatusCode >= 400 {
		resp.Body.Close()
		err = fmt.Errorf("the answer is %s", resp.Status)
	}
	return resp, err
}

// mustServe reads the answer to a request to its end.
func mustServe(resp *http.Response, err error) error {
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return err
}

// rest waits.
func (v *visitor) rest(d time.Duration) { program.Sleep(v.ctx, d) }

// An upload is a body that yields 1,000 bytes every half second.
type upload struct {
	v    *visitor
	left int
}

func (u *upload) Read(b []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	u.v.rest(time.Second / 2)
	n := min(len(b), u.left, 1000)
	u.left -= n
	return copy(b, strings.Repeat("x", n)), nil
}

// honestCases are clients of HTTP/1 and HTTP/2 that are slow for a good reason.
func honestCases() (all []slowCase) {
	for _, protocol := range []string{"h1", "h2"} {
		honest := func(name, does, needs string, visit func(v *visitor) error) {
			all = append(all, slowCase{Name: protocol + "-" + name, Does: does, honest: true, needs: needs, visit: visit})
		}
		honest("preconnect", "connects, and makes its request 3 s later, as browsers do", "", func(v *visitor) error {
			v.rest(3 * time.Second)
			return mustServe(v.ask("GET", v.get, nil, 0))
		})
		honest("slow-upload", "sends 2,000 bytes per second for 20 s", "post", func(v *visitor) error {
			return mustServe(v.ask("POST", v.post, &upload{v, 40_000}, 40_000))
		})
		honest("slow-chunks", "sends 2,000 bytes per second for 20 s, of a length that it doesn't tell", "post", func(v *visitor) error {
			return mustServe(v.ask("POST", v.post, &upload{v, 40_000}, -1))
		})
		honest("expects", "waits a second for 100 (Continue), and then sends its body, as curl does", "post", func(v *visitor) error {
			return mustServe(v.ask("POST", v.post, strings.NewReader("hello"), 5, "Expect", "100-continue"))
		})
		honest("bursts", "reads 256 kB of something large every 2 s, as a player does", "large", func(v *visitor) error {
			resp, err := v.ask("GET", v.large, nil, 0)
			for n := 0; n < 8 && err == nil; n++ {
				_, err = io.CopyN(io.Discard, resp.Body, 256<<10)
				v.rest(2 * time.Second)
			}
			return mustServe(resp, err)
		})
		honest("events", "waits 40 s for events that don't come", "stream", func(v *visitor) error {
			var cancel context.CancelFunc
			v.ctx, cancel = context.WithTimeout(v.ctx, 40*time.Second)
			defer cancel()
			err := mustServe(v.ask("GET", v.stream, nil, 0))
			switch {
			case v.ctx.Err() != nil:
				return nil
			case err == nil:
				return errors.New("the stream has ended")
			}
			return err
		})
		honest("comes-back", "makes a request every 4 s over one connection", "", func(v *visitor) error {
			var err error
			for n := 0; n < 5 && err == nil; n++ {
				err = mustServe(v.ask("GET", v.get, nil, 0))
				v.rest(4 * time.Second)
			}
			return err
		})
	}
	return all
}
