//go:build idletrace

package traces

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

var traced = flag.Int("traced", 100_000, "how many steps TestTracesOfServers checks")

// TestTracesOfServers is TestTraces for servers with real sockets, and clients of which some are
// too slow, silent, or don't read. Only the traces are checked.
func TestTracesOfServers(t *testing.T) {
	idle.TraceAll(t, *traced, func() {
		useServers(t)
		for stacks := make([]byte, 1<<20); ofServers.Match(stacks[:runtime.Stack(stacks, true)]); {
			time.Sleep(time.Millisecond)
		}
	})
}

// ofServers matches the stacks of goroutines of servers.
var ofServers = regexp.MustCompile(`idlewheel/(adapters/|idle\.\(|idle/internal/traces\.serve)|net/http\.\(|fasthttp\.\(|gnet/v2\.\(`)

// useServers runs a server of each kind until its clients are done.
func useServers(t *testing.T) {
	var clients sync.WaitGroup
	for _, serve := range []func(*testing.T) (at net.Addr, close func() error){serveLines, serveHTTP, serveFastHTTP, serveGnet} {
		at, close := serve(t)
		defer close()
		for _, use := range []func(net.Conn){honest, honest, slow, silent, deaf} {
			clients.Go(func() {
				c, err := net.Dial(at.Network(), at.String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(10 * time.Second)) // if the server doesn't end it
				use(c)
			})
		}
	}
	clients.Wait()
}

func listen(t *testing.T) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

const limit = 200 * time.Millisecond

// pages are the limits of serveHTTP and serveFastHTTP.
var pages = httplimits.Timeouts{HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit}

// lines is the policy of serveLines and serveGnet.
var lines = idle.Policy{
	IdleTimeout: 2 * limit, WriteTimeout: limit,
	MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: limit},
	Heartbeat:   idle.Heartbeat{Interval: limit / 2, Timeout: limit / 2, Misses: 3},
}

// serveLines answers each line with itself.
func serveLines(t *testing.T) (at net.Addr, close func() error) {
	l, err := idlenet.Wrap(listen(t), lines, &idlenet.Options{
		Ping: func(c *idlenet.Conn) error { _, err := io.WriteString(c, "ping\n"); return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr(), l.Close
}

func serveHTTP(t *testing.T) (at net.Addr, close func() error) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, page)
	})}
	l, err := idlehttp.Wrap(server, listen(t), pages)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	return l.Addr(), server.Close
}

func serveFastHTTP(t *testing.T) (at net.Addr, close func() error) {
	server := &fasthttp.Server{MaxIdleWorkerDuration: limit, Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString(page) }}
	l, err := idlefasthttp.Wrap(server, listen(t), pages)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	return l.Addr(), server.Shutdown
}

// noInfo is a logger without messages about the start.
type noInfo struct{ logging.Logger }

func (noInfo) Infof(string, ...any) {}

// A gnetServer answers everything with itself.
type gnetServer struct {
	gnet.BuiltinEventEngine
	booted chan gnet.Engine
}

func (s *gnetServer) OnBoot(e gnet.Engine) gnet.Action {
	s.booted <- e
	return gnet.None
}

func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	sent, _ := c.Next(-1)
	c.Write(sent)
	return gnet.None
}

func serveGnet(t *testing.T) (at net.Addr, close func() error) {
	server := &gnetServer{booted: make(chan gnet.Engine, 1)}
	h, err := idlegnet.Wrap(server, lines, &idlegnet.Options{
		Ping: func(c gnet.Conn) error { _, err := io.WriteString(c, "ping\n"); return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	at = &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "socket")}
	go gnet.Run(h, "unix://"+at.String(), gnet.WithNumEventLoop(2), gnet.WithLogger(noInfo{logging.GetDefaultLogger()}))
	engine := <-server.booted
	return at, func() error { return engine.Stop(context.Background()) }
}

// A request is a line for serveLines, too.
const request = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"

var page = strings.Repeat("a page ", 1000)

// honest makes requests one after the other.
func honest(c net.Conn) {
	answer := make([]byte, 1<<16)
	for range 200 {
		io.WriteString(c, request)
		if _, err := c.Read(answer); err != nil {
			return
		}
	}
}

// slow sends each byte on its own.
func slow(c net.Conn) {
	for i := range len(request) {
		if _, err := io.WriteString(c, request[i:i+1]); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// silent sends half of a request.
func silent(c net.Conn) {
	io.WriteString(c, request[:len(request)/2])
	io.Copy(io.Discard, c)
}

// deaf makes requests and reads no answer.
func deaf(c net.Conn) {
	for {
		if _, err := io.WriteString(c, request); err != nil {
			return
		}
	}
}
