package idlehttp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// transport returns a client of s that speaks HTTP/2 only.
func (s *site) transport() *http.Transport {
	var p http.Protocols
	tr := &http.Transport{Protocols: &p}
	if s.Secure {
		p.SetHTTP2(true)
		tr.TLSClientConfig = clientTLS()
	} else {
		p.SetUnencryptedHTTP2(true)
	}
	s.T.Cleanup(tr.CloseIdleConnections)
	return tr
}

// do makes a request by tr and returns the response's body.
func (s *site) do(ctx context.Context, tr *http.Transport, path string, body io.Reader) (string, error) {
	s.T.Helper()
	scheme := "http"
	if s.Secure {
		scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, "POST", scheme+"://"+s.Addr().String()+path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	response, err := tr.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 {
		s.T.Errorf("the response is of %s", response.Proto)
	}
	b, err := io.ReadAll(response.Body)
	return string(b), err
}

// start2 starts a server that speaks HTTP/2, by TLS or not.
func start2(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return start(t, secure, limits, h, append(prepare, func(server *http.Server) {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(secure)
		server.Protocols.SetUnencryptedHTTP2(!secure)
	})...)
}

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	b := append([]byte{0, 0, byte(len(payload)), kind, flags}, make([]byte, 4)...)
	binary.BigEndian.PutUint32(b[5:], stream)
	return string(b) + payload
}

// hello is what a client says first, and request is a GET without an end or
// with one.
var (
	hello   = preface + frame(4, 0, 0, "")
	request = frame(1, 5, 1, "\x82\x87\x84\x41\x04test")
	ping    = frame(6, 0, 0, "12345678")
)

// A connection without streams is closed when the keep-alive timeout has passed,
// whether there have been any or not. The response is such that its end is written before
// net/http tells that the connection is idle.
func TestHTTP2Idle(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		for name, text := range map[string]string{"no stream": hello, "a stream": hello + request} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				limits := httpsuite.Off()
				limits.KeepAliveTimeout = 400 * ms
				s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
					http.NewResponseController(w).Flush()
					w.Write(make([]byte, 4096))
				})
				c := s.Dial("h2")
				last := c.Send(text)
				httpsuite.NotBefore(t, c.Drain(), last, limits.KeepAliveTimeout)
				s.WantOnly(1, "keep-alive", idle.ReasonReadTotal)
			})
		}
	})
}

// While a stream is open the keep-alive timeout does not count, nor do the
// limits that HTTP/1 has for its phases.
func TestHTTP2LongHandler(t *testing.T) {
	httpsuite.Both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 100*ms)
		limits := all(300 * ms)
		limits.HandlerTimeout = 300 * ms
		limits.StreamTimeout = time.Minute
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				time.Sleep(3 * limits.KeepAliveTimeout)
			}
			io.WriteString(w, "done")
		})
		tr := s.transport()
		for _, path := range []string{"/", "/long", "/long"} {
			if got, err := s.do(t.Context(), tr, path, nil); got != "done" || err != nil {
				t.Errorf("%s: got %q, %v", path, got, err)
			}
		}
		s.WantNone()
	})
}

// A connection with streams on which no byte moves is closed, and their handlers
// learn of it.
func TestHTTP2SilentStream(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Off()
		limits.StreamTimeout = 400 * ms
		cancelled := make(chan error, 1)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cancelled <- r.Context().Err()
		})
		c := s.Dial("h2")
		begun := c.Send(hello + request)
		httpsuite.NotBefore(t, c.Drain(), begun, limits.StreamTimeout)
		if err := httpsuite.Receive(t, cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("the request's context: %v", err)
		}
		s.WantOnly(1, "streams", idle.ReasonIdle)
	})
}

// Bytes in either direction keep a connection with streams alive.
func TestHTTP2Activity(t *testing.T) {
	httpsuite.Both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 200*ms)
		limits := all(600 * ms)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/down" {
				for range 15 {
					io.WriteString(w, "x")
					http.NewResponseController(w).Flush()
					time.Sleep(100 * ms)
				}
				return
			}
			io.Copy(w, r.Body)
		})
		tr := s.transport()
		if got, err := s.do(t.Context(), tr, "/down", nil); len(got) != 15 || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		in, out := io.Pipe()
		go func() {
			for range 15 {
				io.WriteString(out, "x")
				time.Sleep(100 * ms)
			}
			out.Close()
		}()
		if got, err := s.do(t.Context(), tr, "/up", in); len(got) != 15 || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// A client that takes nothing any more is cut by the write timeout, long before
// that of streams.
func TestHTTP2DeadClient(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Off()
		limits.WriteTimeout = 400 * ms
		ended := make(chan error, 1)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(bytes.Repeat(httpsuite.Large, 2))
			ended <- err
		})
		c := s.Dial("h2")
		c.Narrow(16 << 10)
		// Windows that take it all: nothing but the connection stands in the way.
		begun := c.Send(preface + frame(4, 0, 0, "\x00\x04\x7f\xff\xff\xff") + frame(8, 0, 0, "\x7f\x00\x00\x00") + request)
		if err := httpsuite.Receive(t, ended); err == nil {
			t.Error("all has been written")
		}
		httpsuite.NotBefore(t, time.Now(), begun, limits.WriteTimeout)
		httpsuite.Eventually(t, "counted", func() bool { return s.Stats().TimedOut[idle.ReasonWrite] == 1 })
	})
}

// Who agrees to speak HTTP/2 and then says nothing is cut as one that does not
// finish the handshake, silently.
func TestHTTP2PrefaceNeverCome(t *testing.T) {
	t.Parallel()
	limits := httpsuite.Off()
	limits.HandshakeTimeout = 300 * ms
	s := start2(t, true, limits, unreachable(t))
	for _, part := range []string{"", preface[:5]} {
		c := s.Dial("h2")
		io.WriteString(c, part) // which may be too late
		httpsuite.NotBefore(t, c.Drain(), c.Begun, limits.HandshakeTimeout)
	}
	s.WantOnly(2, "handshake", idle.ReasonReadTotal)
}

// Without TLS HTTP/2 is known by its preface, in however many pieces it comes;
// but a piece of it is only a header that is not complete.
func TestUnencryptedHTTP2(t *testing.T) {
	t.Parallel()
	limits := httpsuite.Off()
	limits.HandshakeTimeout, limits.HeaderTimeout = patience, patience
	limits.KeepAliveTimeout, limits.StreamTimeout = 400*ms, time.Minute
	for name, pause := range map[string]time.Duration{"whole": 0, "byte by byte": 5 * ms} {
		t.Run(name, func(t0 *testing.T) {
			t0.Parallel()
			t := intime.Of(t0, limits.KeepAliveTimeout/4)
			s := start2(t, false, limits, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("the request is of %s", r.Proto)
				}
				time.Sleep(3 * limits.KeepAliveTimeout)
			})
			c := s.Dial("h2")
			var last time.Time
			for _, b := range []byte(hello + request) {
				time.Sleep(pause)
				last = c.Send(string([]byte{b}))
			}
			httpsuite.NotBefore(t, c.Drain(), last, 4*limits.KeepAliveTimeout)
			s.WantOnly(1, "keep-alive", idle.ReasonReadTotal)
		})
	}
	t.Run("HTTP/1 beside it", func(t *testing.T) {
		t.Parallel()
		limits := all(patience)
		limits.HeaderTimeout = 300 * ms
		s := start2(t, false, limits, echo)
		c := s.Dial()
		for range 2 {
			c.Send(httpsuite.Post(5) + "hello")
			c.Want(http.StatusOK)
		}
		last := c.Send("P") // not a preface any more
		httpsuite.NotBefore(t, c.Refused(http.StatusRequestTimeout), last, 300*ms)
	})
	t.Run("half a preface", func(t *testing.T) {
		t.Parallel()
		limits := httpsuite.Off()
		limits.HeaderTimeout = 300 * ms
		s := start2(t, false, limits, unreachable(t))
		for _, n := range []int{1, 14, 16} { // with more, net/http has a request of HTTP/1, and its handler is called
			c := s.Dial()
			begun := c.Send(preface[:n])
			httpsuite.NotBefore(t, c.Drain(), begun, limits.HeaderTimeout)
		}
		s.WantOnly(3, "request header", idle.ReasonReadTotal)
	})
}

func TestHTTP2CannotBeWatched(t *testing.T) {
	t.Parallel()
	s := start2(t, true, httpsuite.Off(), func(w http.ResponseWriter, r *http.Request) {
		if err := Watch(r, idle.Policy{}, nil); err == nil || !strings.Contains(err.Error(), "HTTP/2") {
			t.Errorf("got %v", err)
		}
	})
	if _, err := s.do(t.Context(), s.transport(), "/", nil); err != nil {
		t.Error(err)
	}
}
