package idlefasthttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// inBubble runs a test of a server in virtual time.
func inBubble(t *testing.T, limits Timeouts, h fasthttp.RequestHandler, test func(t *testing.T, l *Listener, nc net.Conn)) {
	t.Helper()
	serverInBubble(t, limits, &fasthttp.Server{Handler: h}, test)
}

// serverInBubble is inBubble for a server that has more than a Handler.
func serverInBubble(t *testing.T, limits Timeouts, s *fasthttp.Server, test func(t *testing.T, l *Listener, nc net.Conn)) {
	t.Helper()
	if err := new(fasthttp.Response).Write(bufio.NewWriter(io.Discard)); err != nil { // starts a goroutine of fasthttp that never ends
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		l, err := Wrap(s, pipes, limits)
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(l)
		nc, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		test(t, l, nc)
		nc.Close()
		s.Shutdown()
		time.Sleep(11 * time.Second) // for fasthttp's pool of workers
	})
}

// TestSetLimitsTooLate is by a handler for which fasthttp.TimeoutHandler has answered. The next request keeps its limits.
func TestSetLimitsTooLate(t *testing.T) {
	late := make(chan error, 1)
	h := fasthttp.TimeoutHandler(func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			time.Sleep(3 * time.Second)
			late <- SetLimits(ctx, RequestLimits{HandlerTimeout: time.Second})
		}
		time.Sleep(time.Second)
	}, 2*time.Second, "late")
	inBubble(t, Timeouts{}, h, func(t *testing.T, l *Listener, nc net.Conn) {
		in := bufio.NewReader(nc)
		for _, test := range []struct {
			path string
			want int
		}{{"/slow", http.StatusRequestTimeout}, {"/", http.StatusOK}} {
			go io.WriteString(nc, "GET "+test.path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			r, err := http.ReadResponse(in, nil)
			if err != nil || r.StatusCode != test.want {
				t.Fatalf("%s: %v, %v", test.path, r, err)
			}
			io.Copy(io.Discard, r.Body)
		}
		time.Sleep(time.Minute)
		if err := <-late; err == nil {
			t.Error("SetLimits works after the end of its request")
		}
		if st := l.Stats(); len(st.TimedOut) > 0 {
			t.Errorf("ended by %v", st.Limits)
		}
	})
}

// TestForceAfterOfAFirstRequest cuts a connection whose first handler takes long.
func TestForceAfterOfAFirstRequest(t *testing.T) {
	inBubble(t, Timeouts{HandshakeTimeout: time.Hour}, func(*fasthttp.RequestCtx) { time.Sleep(time.Minute) }, func(t *testing.T, l *Listener, nc net.Conn) {
		go io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		begun, took := time.Now(), make(chan time.Duration, 1)
		go func() {
			io.Copy(io.Discard, nc)
			took <- time.Since(begun)
		}()
		httpsuite.NoError(t, Shutdown(context.Background(), idle.Drain{ForceAfter: time.Second}, l))
		if took := <-took; took < time.Second || took > 5*time.Second {
			t.Errorf("cut after %v", took)
		}
	})
}

// TestEndBeforeTheHandler ends a connection when its server has read a request, and has not told of it yet. The request isn't executed, so
// its client must not get an answer, after which it would not send it again.
func TestEndBeforeTheHandler(t *testing.T) {
	executed := false
	read, goOn := func() {}, func() { time.Sleep(100 * time.Millisecond) }
	s := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) { executed = true }}
	s.HeaderReceived = func(*fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
		read()
		goOn()
		return c
	}
	limits := Timeouts{OnEnd: func(net.Conn, *idle.TimeoutError) { time.Sleep(500 * time.Millisecond) }} // the socket is open meanwhile
	serverInBubble(t, limits, s, func(t *testing.T, l *Listener, nc net.Conn) {
		read = func() { l.Tracker().Visit(context.Background(), func(i idle.Info) { i.End("a test") }) }
		go io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if b, _ := io.ReadAll(nc); len(b) > 0 || executed {
			t.Errorf("executed: %v; got %q", executed, b)
		}
	})
}

// TestDrainAsksByAnyResponse: what a handler does to its response does not keep the client
// from being asked to close the connection.
func TestDrainAsksByAnyResponse(t *testing.T) {
	for name, respond := range map[string]fasthttp.RequestHandler{
		"Error":    func(ctx *fasthttp.RequestCtx) { ctx.Error("no", fasthttp.StatusTeapot) },
		"NotFound": func(ctx *fasthttp.RequestCtx) { ctx.NotFound() },
		"TimeoutHandler": fasthttp.TimeoutHandler(func(ctx *fasthttp.RequestCtx) {
			time.Sleep(time.Second)
			ctx.Response.Header.Set("X-Late", "yes")
		}, time.Millisecond, "late"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Timeouts{}, func(ctx *fasthttp.RequestCtx) {
				time.Sleep(time.Second)
				respond(ctx)
			}, func(t *testing.T, l *Listener, nc net.Conn) {
				const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
				go io.WriteString(nc, get+get)
				synctest.Wait()
				ended := make(chan error, 1)
				go func() { ended <- Shutdown(context.Background(), idle.Drain{}, l) }()
				if r, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil || !r.Close {
					t.Errorf("a response does not ask to close the connection: %v, %v", r, err)
				}
				io.Copy(io.Discard, nc)
				httpsuite.NoError(t, <-ended)
			})
		})
	}
}
