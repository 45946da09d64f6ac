package idlehttp

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A gateway is a client of an upstream in memory, with limits.
type gateway struct {
	*http.Client
	t    *testing.T
	up   *site
	base *http.Transport
	url  string
}

// upstreams are the protocols that an upstream may speak.
var upstreams = map[string]struct{ http2, secure bool }{"HTTP1": {}, "h2c": {http2: true}, "h2": {true, true}}

// beforeUpstreams runs a test in virtual time before an upstream of each kind.
func beforeUpstreams(t *testing.T, l ResponseLimits, h http.HandlerFunc, test func(t *testing.T, g *gateway)) {
	for name := range upstreams {
		t.Run(name, func(t *testing.T) { beforeUpstream(t, name, l, h, test) })
	}
}

// beforeUpstream runs a test in virtual time before an upstream of one kind. At its end nothing may be tracked, and no
// goroutine may be left.
func beforeUpstream(t *testing.T, kind string, l ResponseLimits, h http.HandlerFunc, test func(t *testing.T, g *gateway)) {
	up := upstreams[kind]
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t, up.secure, httpsuite.Off(), h)
		g := &gateway{t: t, up: s, base: s.transport(up.http2), url: map[bool]string{false: "http", true: "https"}[up.secure] + "://example.com/"}
		g.Client = limitedClient(t, g.base, l)
		test(t, g)
		g.wantUntracked()
	})
}

// limitedClient returns a client of base with the limits l. Its goroutine ends with the test, as the documentation says.
func limitedClient(t *testing.T, base http.RoundTripper, l ResponseLimits) *http.Client {
	t.Helper()
	rt, err := Transport(base, l)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: rt}
	t.Cleanup(func() { c.CloseIdleConnections(); time.Sleep(time.Second) })
	return c
}

func (g *gateway) wantUntracked() {
	g.t.Helper()
	synctest.Wait()
	if n := g.Transport.(*transport).tracker.Stats().Live; n != 0 {
		g.t.Errorf("%d waits are tracked", n)
	}
}

// get makes a request whose header has to arrive.
func (g *gateway) get(path string) *http.Response {
	g.t.Helper()
	response, err := g.Get(g.url + path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { response.Body.Close() })
	return response
}

// want reads a whole body, and closes it.
func (g *gateway) want(response *http.Response, err error, want string) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != want {
		g.t.Errorf("got %q and %v, want %q", got, err, want)
	}
}

// dialSlowly lets dialing take a minute.
func (g *gateway) dialSlowly() {
	dial := g.base.DialContext
	g.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(time.Minute)
		return dial(ctx, network, addr)
	}
}

// request sends a request through a ReverseProxy that has g's Transport.
func (g *gateway) request(text string, modify func(*http.Response) error) (net.Conn, *bufio.Reader, *http.Response) {
	g.t.Helper()
	target, err := url.Parse(g.url)
	if err != nil {
		g.t.Fatal(err)
	}
	pipes := idletest.NewListener()
	front := &http.Server{Handler: &httputil.ReverseProxy{
		ErrorLog:       log.New(io.Discard, "", 0),
		Transport:      g.Transport,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: modify,
	}}
	go front.Serve(pipes)
	g.t.Cleanup(func() { front.Close() })
	conn := dial(g.t, pipes, text)
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return conn, in, response
}

// wantTimeout checks that err is a limit that has passed since begun.
func wantTimeout(t *testing.T, err error, phase, setting string, begun time.Time, limit time.Duration) {
	t.Helper()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) || timeout.Phase != phase || timeout.Setting != setting {
		t.Fatalf("got %v, want %s: %s", err, phase, setting)
	}
	if net := net.Error(nil); !errors.As(err, &net) || !net.Timeout() {
		t.Errorf("%v is no timeout", err)
	}
	if took := time.Since(begun); took < limit || took > limit+3*limit/50+30*ms {
		t.Errorf("took %v, want %v", took, limit)
	}
}

// say writes and flushes a part of a response.
func say(w http.ResponseWriter, text string) {
	io.WriteString(w, text)
	http.NewResponseController(w).Flush()
}

// stall holds up a handler until its request is given up, or for a day.
func stall(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(24 * time.Hour):
	}
}

// TestTransportHeader: a header that doesn't come in time ends the request, and the upstream learns of it. A 103
// reaches the user's trace, but doesn't extend the limit.
func TestTransportHeader(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{HeaderTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		for r.Context().Err() == nil {
			w.WriteHeader(http.StatusEarlyHints)
			time.Sleep(300 * ms)
		}
		if after := time.Since(begun); after > 2*time.Second {
			t.Errorf("the upstream learned of it after %v", after)
		}
	}, func(t *testing.T, g *gateway) {
		var hints atomic.Int32
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			hints.Add(1)
			return nil
		}})
		request := httptest.NewRequestWithContext(trace, "GET", g.url, nil)
		begun := time.Now()
		_, err := g.Transport.RoundTrip(request)
		wantTimeout(t, err, "response header", "HeaderTimeout", begun, time.Second)
		if n := hints.Load(); n != 4 {
			t.Errorf("got %d hints, want 4", n)
		}
	})
}

// TestTransportBody: a body that stalls ends the request, and later reads fail too. The limit starts over after the header, and
// after each byte. So it is with what http.Transport decompresses.
func TestTransportBody(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{HeaderTimeout: time.Second, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		write := func(text string) { say(w, text) }
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			write = func(text string) {
				io.WriteString(z, text)
				z.Flush()
				say(w, "")
			}
		}
		for _, text := range []string{"x", "x", "y"} {
			time.Sleep(900 * ms)
			write(text)
		}
		stall(r)
	}, func(t *testing.T, g *gateway) {
		for _, path := range []string{"", "gzip"} {
			response, b := g.get(path), make([]byte, 3)
			if _, err := io.ReadFull(response.Body, b); err != nil || string(b) != "xxy" || response.Uncompressed != (path == "gzip") {
				t.Fatalf("%q %v", b, err)
			}
			begun := time.Now()
			n, err := response.Body.Read(b)
			if n != 0 {
				t.Errorf("%d bytes came after the limit", n)
			}
			wantTimeout(t, err, "response body", "BodyTimeout", begun, time.Second)
			if _, again := response.Body.Read(b); again == nil || again.Error() != err.Error() {
				t.Errorf("first %v, then %v", err, again)
			}
			g.wantUntracked() // although the body isn't closed
		}
	})
}

// TestTransportRate: a body that trickles is too slow. A Grace of zero is 5 s.
func TestTransportRate(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{BodyRate: idle.Rate{BytesPerSecond: 10}}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			say(w, "12345")
			time.Sleep(time.Second)
		}
	}, func(t *testing.T, g *gateway) {
		response, begun := g.get(""), time.Now()
		_, err := io.Copy(io.Discard, response.Body)
		wantTimeout(t, err, "response body", "BodyRate", begun, 11750*ms) // 5 s and an eighth of that, and as much for what has come
	})
}

// TestTransportSlowReader: time in which the body isn't read doesn't count, neither for the silence nor for the rate.
// The trailers are there at its end.
func TestTransportSlowReader(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{BodyTimeout: time.Second, BodyRate: idle.Rate{BytesPerSecond: 1, Grace: time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		for range 5 {
			say(w, "x")
			time.Sleep(500 * ms)
		}
		w.Header().Set("Sum", "1")
	}, func(t *testing.T, g *gateway) {
		response := g.get("")
		for range 5 {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		g.want(response, nil, "")
		if got := response.Trailer.Get("Sum"); got != "1" {
			t.Errorf("the trailer is %q", got)
		}
	})
}

// TestTransportSending: dialing and sending the request's body don't count. Then the header has its whole time.
func TestTransportSending(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{HeaderTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		time.Sleep(900 * ms)
		fmt.Fprint(w, n, err)
	}, func(t *testing.T, g *gateway) {
		g.dialSlowly()
		body, more := io.Pipe()
		go func() {
			for range 10 {
				time.Sleep(time.Minute)
				io.WriteString(more, "x")
			}
			more.Close()
		}()
		response, err := g.Post(g.url, "", body)
		g.want(response, err, "10 <nil>")
	})
}

// TestTransportOthersGoOn: in HTTP/2 only the request that's late fails.
func TestTransportOthersGoOn(t *testing.T) {
	for _, kind := range []string{"h2c", "h2"} {
		beforeUpstream(t, kind, ResponseLimits{HeaderTimeout: 2 * time.Second, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			say(w, "x")
			if r.URL.Path == "/stalls" {
				stall(r)
			}
			for range 5 {
				time.Sleep(500 * ms)
				say(w, "x")
			}
		}, func(t *testing.T, g *gateway) {
			good, bad, begun := g.get(""), g.get("stalls"), time.Now()
			_, err := io.Copy(io.Discard, bad.Body)
			wantTimeout(t, err, "response body", "BodyTimeout", begun, time.Second)
			g.want(good, nil, "xxxxxx")
			g.want(g.get(""), nil, "xxxxxx")
			if n := g.up.Stats().Tracked; n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

// TestTransportTracksNothing that is over: a body that was read to its end, or closed before, or whose request
// was cancelled, and an error.
func TestTransportTracksNothing(t *testing.T) {
	limits := ResponseLimits{HeaderTimeout: time.Second, BodyTimeout: time.Second, BodyRate: idle.Rate{BytesPerSecond: 1}}
	beforeUpstreams(t, limits, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/empty" {
			return
		}
		say(w, "hello")
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
	}, func(t *testing.T, g *gateway) {
		begin := func(ctx context.Context) io.ReadCloser {
			request, _ := http.NewRequestWithContext(ctx, "GET", g.url, nil)
			response, err := g.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Read(make([]byte, 1))
			return response.Body
		}
		for name, use := range map[string]func(ctx context.Context, cancel func()){
			"read to the end": func(context.Context, func()) { io.Copy(io.Discard, g.get("").Body) },
			"closed":          func(context.Context, func()) { g.get("").Body.Close() },
			"closed in the middle": func(ctx context.Context, _ func()) {
				body := begin(ctx)
				body.Close()
				if _, err := body.Read(make([]byte, 1)); err == nil || errors.As(err, new(*idle.TimeoutError)) {
					t.Errorf("a closed body is read: %v", err)
				}
			},
			"closed after a pause": func(ctx context.Context, _ func()) {
				body := begin(ctx)
				time.Sleep(time.Hour)
				body.Close()
			},
			"cancelled": func(ctx context.Context, cancel func()) { begin(ctx); cancel() },
			"cut": func(context.Context, func()) {
				response, err := g.Get(g.url + "cut")
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					g.wantUntracked()
					response.Body.Close()
				}
				if err == nil || errors.As(err, new(*idle.TimeoutError)) {
					t.Errorf("the end of a cut body: %v", err)
				}
			},
			"HEAD": func(context.Context, func()) { g.Head(g.url) },
			"empty": func(context.Context, func()) {
				response := g.get("empty")
				if _, wrapped := response.Body.(*trip); wrapped && response.ProtoMajor == 1 {
					t.Error("an empty body is wrapped")
				}
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			use(ctx, cancel)
			t.Log(name)
			g.wantUntracked()
			cancel()
		}
	})
}

// TestTransportContext: the end of the request's own context is no timeout of ours.
func TestTransportContext(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{HeaderTimeout: time.Minute, BodyTimeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			say(w, "x")
		}
		stall(r)
	}, func(t *testing.T, g *gateway) {
		for _, path := range []string{"header", "body"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			response, err := g.Transport.RoundTrip(httptest.NewRequestWithContext(ctx, "GET", g.url+path, nil))
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
			}
			if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*idle.TimeoutError)) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// TestTransportUpgrade: after 101 the body can be written to, and has no limits. ReverseProxy passes it on.
func TestTransportUpgrade(t *testing.T) {
	beforeUpstream(t, "HTTP1", ResponseLimits{HeaderTimeout: time.Second, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, in)
	}, func(t *testing.T, g *gateway) {
		conn, in, response := g.request("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", nil)
		if response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(response)
		}
		for range 3 {
			time.Sleep(time.Minute)
			io.WriteString(conn, "hello\n")
			if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
				t.Fatal(line, err)
			}
		}
		g.wantUntracked()
		conn.Close()
	})
}

// TestTransportRetry: a request that http.Transport sends again, because the upstream closed its connection, has
// the whole time once more. Dialing for it doesn't count either.
func TestTransportRetry(t *testing.T) {
	var requests atomic.Int32
	beforeUpstream(t, "HTTP1", ResponseLimits{HeaderTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 2:
			time.Sleep(800 * ms)
			panic(http.ErrAbortHandler)
		case 3:
			time.Sleep(800 * ms)
		}
		say(w, "x")
	}, func(t *testing.T, g *gateway) {
		g.want(g.get(""), nil, "x")
		g.dialSlowly()
		g.want(g.get(""), nil, "x")
		if n := requests.Load(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

// TestTransportRedirect: each request of a redirect has its own time, and its body is sent again by GetBody.
func TestTransportRedirect(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{HeaderTimeout: time.Second, BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(900 * ms)
		if r.URL.Path != "/here" {
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
			return
		}
		io.Copy(w, r.Body)
	}, func(t *testing.T, g *gateway) {
		response, err := g.Post(g.url, "", strings.NewReader("hello"))
		g.want(response, err, "hello")
	})
}

// TestTransportProxy: a ReverseProxy passes events on at once. A client that pauses doesn't make the upstream late.
func TestTransportProxy(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{BodyTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			say(w, fmt.Sprintf("data: %d\n\n", i))
			time.Sleep(500 * ms)
		}
		stall(r)
	}, func(t *testing.T, g *gateway) {
		failed := make(chan error, 1)
		begun := time.Now()
		_, _, response := g.request("GET / HTTP/1.1\r\nHost: x\r\n\r\n", func(r *http.Response) error {
			r.Body = &noted{r.Body, failed}
			return nil
		})
		lines := bufio.NewScanner(response.Body)
		for i := range 5 {
			lines.Scan()
			if lines.Text() != fmt.Sprint("data: ", i) {
				t.Fatalf("got %q %v", lines.Text(), lines.Err())
			}
			lines.Scan()
			if took := time.Since(begun); i == 1 && took != 500*ms {
				t.Errorf("the second event came after %v", took)
			}
			if i == 2 {
				time.Sleep(time.Hour)
			}
		}
		wantTimeout(t, <-failed, "response body", "BodyTimeout", time.Now().Add(-time.Second), time.Second)
		if lines.Scan() || lines.Err() == nil {
			t.Error("the client isn't cut")
		}
	})
}

// noted notes the error of a body.
type noted struct {
	io.ReadCloser
	failed chan error
}

func (n *noted) Read(p []byte) (int, error) {
	k, err := n.ReadCloser.Read(p)
	if err != nil {
		n.failed <- err
	}
	return k, err
}

// TestTransportRequest: the caller's request isn't changed, and the response refers to it.
func TestTransportRequest(t *testing.T) {
	beforeUpstreams(t, ResponseLimits{HeaderTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {}, func(t *testing.T, g *gateway) {
		request := httptest.NewRequest("GET", g.url, nil)
		response, err := g.Transport.RoundTrip(request)
		g.want(response, err, "")
		if response.Request != request || request.Context().Err() != nil {
			t.Error("the request is another one, or its context is cancelled")
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A lateBase answers after a time, whatever becomes of the request. It closes what is closed.
type lateBase struct {
	after          time.Duration
	closed, unused bool // a body; the idle connections
}

func (b *lateBase) CloseIdleConnections() { b.unused = true }

func (b *lateBase) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
	time.Sleep(b.after)
	httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{}) // a fast server's answer comes before it
	return &http.Response{Body: b}, nil
}

func (b *lateBase) Read(p []byte) (int, error) {
	time.Sleep(b.after)
	return len(p), nil
}

func (b *lateBase) Close() error {
	b.closed = true
	return nil
}

// TestTransportBases of other kinds than http.Transport.
func TestTransportBases(t *testing.T) {
	request := httptest.NewRequest("GET", "/", nil)
	for name, test := range map[string]func(t *testing.T){
		// In HTTP/2 a request's body may go on after the response has ended, so the context does until Close.
		"upload": func(t *testing.T) {
			var ctx context.Context
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				ctx = r.Context()
				return &http.Response{Body: io.NopCloser(strings.NewReader("x"))}, nil
			})
			response, err := limitedClient(t, base, ResponseLimits{BodyTimeout: time.Second}).Transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			atEnd := ctx.Err()
			response.Body.Close()
			if atEnd != nil || ctx.Err() == nil {
				t.Errorf("at the end of the body: %v; after Close: %v", atEnd, ctx.Err())
			}
		},
		// The whole RoundTrip of a base that reports nothing to httptrace is limited.
		"no trace": func(t *testing.T) {
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				stall(r)
				return nil, r.Context().Err()
			})
			begun := time.Now()
			_, err := limitedClient(t, base, ResponseLimits{HeaderTimeout: time.Second}).Transport.RoundTrip(request)
			wantTimeout(t, err, "response header", "HeaderTimeout", begun, time.Second)
		},
		// What a base returns after a limit isn't delivered, and is closed. CloseIdleConnections reaches the base.
		"late header": func(t *testing.T) {
			base, begun := &lateBase{after: 2 * time.Second}, time.Now()
			c := limitedClient(t, base, ResponseLimits{HeaderTimeout: time.Second})
			_, err := c.Transport.RoundTrip(request)
			wantTimeout(t, err, "response header", "HeaderTimeout", begun.Add(time.Second), time.Second)
			if c.CloseIdleConnections(); !base.closed || !base.unused {
				t.Errorf("the body is closed: %v; the idle connections are: %v", base.closed, base.unused)
			}
		},
		"late body": func(t *testing.T) {
			limits := ResponseLimits{HeaderTimeout: 3 * time.Second, BodyTimeout: time.Second}
			response, err := limitedClient(t, &lateBase{after: 2 * time.Second}, limits).Transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			n, err := response.Body.Read(make([]byte, 1))
			if n != 0 {
				t.Error("a byte is delivered")
			}
			wantTimeout(t, err, "response body", "BodyTimeout", begun.Add(time.Second), time.Second)
			response.Body.Close()
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// TestTransportMisuse: errors name the field and its value. A base of nil is http.DefaultTransport.
func TestTransportMisuse(t *testing.T) {
	for want, l := range map[string]ResponseLimits{
		"no limit is set; set HeaderTimeout, BodyTimeout or BodyRate":      {},
		"BodyTimeout is -5s; use 0 to disable it":                          {BodyTimeout: -5 * time.Second},
		"HeaderTimeout is -1ns; use 0 to disable it":                       {HeaderTimeout: Off},
		"HeaderTimeout is 30ns; use 0 to disable it, or at least 10ms":     {HeaderTimeout: 30},
		"BodyRate.Grace is -5s; use 0 to disable it":                       {BodyRate: idle.Rate{BytesPerSecond: 1, Grace: -5 * time.Second}},
		"BodyRate.BytesPerSecond is -1; use 0 to disable it":               {BodyRate: idle.Rate{BytesPerSecond: Off}},
		"BodyRate.BytesPerSecond is 0, but its Grace is 5s; set both":      {BodyRate: idle.Rate{Grace: 5 * time.Second}},
		"idle: ReadTimeout is 87600h0m0s; with a tick of 100ms the longes": {BodyTimeout: 87600 * time.Hour},
	} {
		rt, err := Transport(nil, l)
		httpsuite.WantError(t, err, "idlehttp: Transport: "+want)
		if rt != nil {
			t.Errorf("%v: %v", l, rt)
		}
	}
	rt, err := Transport(nil, ResponseLimits{BodyTimeout: time.Minute})
	if err != nil || rt.(*transport).base != http.DefaultTransport {
		t.Error(rt, err)
	}
}

// BenchmarkTransport compares what the limits cost a request without a network.
func BenchmarkTransport(b *testing.B) {
	limited, err := Transport(&lateBase{}, ResponseLimits{HeaderTimeout: time.Minute, BodyTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	request := httptest.NewRequest("GET", "/", nil)
	p := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		response, err := limited.RoundTrip(request)
		if err != nil {
			b.Fatal(err)
		}
		response.Body.Read(p)
		response.Body.Close()
	}
	limited.(*transport).CloseIdleConnections()
}
