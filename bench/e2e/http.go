package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// greeting is what HTTP servers answer.
const greeting = "hello, world"

// httpExchange is the exchange of HTTP servers. Answers have the same length
// because a date has.
func httpExchange() exchange {
	return exchange{
		request: func(int) []byte { return []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") },
		answer: func(in *bufio.Reader, _ int) error {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				return err
			}
			if res.StatusCode != http.StatusOK || string(body) != greeting {
				return fmt.Errorf("the answer is %q with status %s", body, res.Status)
			}
			return nil
		},
	}
}

// httpServer is a server of net/http. Ours has the timeouts that the adapter has
// by default, which are all.
func httpServer() server {
	bare := func(s *http.Server, ln net.Listener) error { return s.Serve(ln) }
	ours := func(s *http.Server, ln net.Listener) error {
		return idlehttp.Serve(s, ln, idlehttp.Timeouts{})
	}
	return server{
		run: map[string]func(func(string)) error{
			"bare":   httpRun(bare),
			"own":    httpRun(withOwn(bare)),
			us:       httpRun(ours),
			noStream: httpRun(withoutStream(ours)),
		},
		exchange: httpExchange(),
	}
}

// withOwn sets the server's own timeouts.
func withOwn(serve func(*http.Server, net.Listener) error) func(*http.Server, net.Listener) error {
	return func(s *http.Server, ln net.Listener) error {
		s.ReadTimeout, s.ReadHeaderTimeout, s.WriteTimeout, s.IdleTimeout = timeout, timeout, timeout, timeout
		return serve(s, ln)
	}
}

func httpRun(serve func(*http.Server, net.Listener) error) func(func(string)) error {
	return func(ready func(string)) error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		ready(ln.Addr().String())
		hello := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, greeting) }
		return serve(&http.Server{Handler: http.HandlerFunc(hello)}, ln)
	}
}
