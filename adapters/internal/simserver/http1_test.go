package simserver

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

var (
	seeds = flag.Int("seeds", 40, "how many worlds")
	first = flag.Uint64("seed", 1, "the first of them")
)

var limits = httplimits.Timeouts{
	HandshakeTimeout: 4 * time.Second,
	HeaderTimeout:    3 * time.Second,
	BodyTimeout:      5 * time.Second,
	BodyRate:         idle.Rate{BytesPerSecond: 1000, Grace: 6 * time.Second},
	WriteTimeout:     time.Minute,
	WriteRate:        idle.Rate{BytesPerSecond: 100_000, Grace: 6 * time.Second},
	KeepAliveTimeout: 2 * time.Second,
}

func TestNetHTTP(t *testing.T)  { runAll(t, startNetHTTP, kinds) }
func TestFastHTTP(t *testing.T) { warmUp(t); runAll(t, startFastHTTP, kinds) }

// runAll runs worlds until one fails.
func runAll(t *testing.T, start func(*World, net.Listener, httplimits.Timeouts) (Server, error), kinds []func(*Client)) {
	n := *seeds
	if testing.Short() {
		n = min(n, 10)
	}
	for i := range n {
		seed, limits := *first+uint64(i), limits
		if byTimeout(seed) {
			limits.WriteRate.BytesPerSecond, limits.WriteRate.Grace, limits.WriteTimeout = httplimits.Off, 0, stall
		}
		Run(t, seed, limits, start, kinds)
		if t.Failed() {
			return
		}
	}
}

// byTimeout reports whether the world of a seed has WriteTimeout instead of WriteRate.
func byTimeout(seed uint64) bool { return seed%4 == 3 }

// stall is the WriteTimeout of those worlds.
const stall = 5 * time.Second

// writeLimit returns the limit that ends a client that doesn't read. more is how much later that is
// because the network accepted held bytes at once.
func (w *World) writeLimit(held time.Duration) (setting string, limit, more time.Duration) {
	switch {
	case byTimeout(w.Seed) && w.Kernel == simnet.Partial: // the first check of the send queue may find that it has moved
		return "WriteTimeout", stall, stall
	case byTimeout(w.Seed):
		return "WriteTimeout", stall, 0
	}
	grace := limits.WriteRate.Grace // an eighth of it is used up before waits are measured
	return "WriteRate", grace, grace/8 + 2*Tick + held*time.Second/100_000
}

var quiet = log.New(io.Discard, "", 0)

// handlerLimit is the HandlerTimeout that some handlers set.
const handlerLimit = 10 * Tick

// An order says what a handler should do. It's in the path of the request:
// /id/size/nanoseconds/kind.
type order struct {
	id   string
	size int           // of the response
	wait time.Duration // before the response, and again halfway through it
	kind string
}

func (o order) path() string {
	return fmt.Sprintf("/%s/%d/%d/%s", o.id, o.size, o.wait.Nanoseconds(), o.kind)
}

func parseOrder(path string) (o order) {
	part := strings.Split(path, "/")
	ns, _ := strconv.Atoi(part[3])
	o.id, o.kind, o.wait = part[1], part[4], time.Duration(ns)
	o.size, _ = strconv.Atoi(part[2])
	return o
}

// statuses are the kinds of orders, with the status of the response.
var statuses = map[string]int{
	"plain":   http.StatusOK,
	"error":   http.StatusInternalServerError, // by the server's own function for errors
	"timeout": http.StatusServiceUnavailable,
	"limited": http.StatusOK, // with a HandlerTimeout
	"own":     http.StatusOK, // the handler sets read deadlines of its own
	"hints":   http.StatusOK, // after a 103
	"hangs":   http.StatusOK, // the response begins before the body is read
}

// stamp returns the value of the header At, the time of the response.
func stamp() string { return time.Now().Format(time.RFC3339Nano) }

func startNetHTTP(w *World, ln net.Listener, limits httplimits.Timeouts) (Server, error) {
	server := &http.Server{Handler: http.HandlerFunc(w.serveNetHTTP), ErrorLog: quiet}
	server.ConnState = func(nc net.Conn, to http.ConnState) {
		if to == http.StateIdle {
			responded(nc)
		}
	}
	l, err := idlehttp.Wrap(server, ln, limits)
	if err != nil {
		return Server{}, err
	}
	accepts := w.mayProbe(l)
	return Server{
		Serve:    func() error { return server.Serve(accepts) },
		Shutdown: func(ctx context.Context, d idle.Drain) error { return idlehttp.Shutdown(ctx, d, l) },
		Stats:    l.Stats,
		Tracker:  l.Tracker(),
	}, nil
}

func (w *World) serveNetHTTP(rw http.ResponseWriter, r *http.Request) {
	o := parseOrder(r.URL.Path)
	w.Begin(o.id)
	rc := http.NewResponseController(rw)
	switch o.kind {
	case "hints":
		rw.WriteHeader(http.StatusEarlyHints)
	case "hangs":
		rw.Header().Set("At", stamp())
		rw.Header().Set("Content-Length", strconv.Itoa(o.size/2*2))
		rw.WriteHeader(http.StatusOK)
		rc.Flush()
	case "limited":
		if err := idlehttp.SetLimits(r, idlehttp.RequestLimits{HandlerTimeout: handlerLimit}); err != nil {
			w.Errorf("%s: %v", o.id, err)
		}
	case "own":
		rc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		rc.SetReadDeadline(time.Now().AddDate(300, 0, 0)) // too far away to matter
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		if o.kind == "own" && !errors.Is(err, io.ErrUnexpectedEOF) {
			w.Errorf("%s: the body of a handler that has lifted its deadline: %v", o.id, err)
		}
		return
	}
	time.Sleep(o.wait)
	rw.Header().Set("At", stamp())
	if status := statuses[o.kind]; status != http.StatusOK {
		http.Error(rw, strings.Repeat("x", o.size), status)
		return
	}
	text := strings.Repeat("x", o.size/2)
	rw.Header().Set("Content-Length", strconv.Itoa(2*len(text)))
	io.WriteString(rw, text)
	rc.Flush()
	time.Sleep(o.wait)
	io.WriteString(rw, text)
}

// warmUp starts a goroutine of fasthttp that never ends, outside of virtual time.
func warmUp(t *testing.T) {
	var r fasthttp.Response
	if err := r.Write(bufio.NewWriter(io.Discard)); err != nil {
		t.Fatal(err)
	}
}

func startFastHTTP(w *World, ln net.Listener, limits httplimits.Timeouts) (Server, error) {
	server := &fasthttp.Server{
		Handler: w.serveFastHTTP, Logger: quiet,
		ReduceMemoryUsage: w.IntN(2) == 0, StreamRequestBody: w.IntN(2) == 0,
		ConnState: func(nc net.Conn, to fasthttp.ConnState) {
			if to == fasthttp.StateIdle {
				responded(nc)
			}
		},
	}
	l, err := idlefasthttp.Wrap(server, ln, limits)
	if err != nil {
		return Server{}, err
	}
	accepts := w.mayProbe(l)
	return Server{
		Serve:    func() error { return server.Serve(accepts) },
		Shutdown: func(ctx context.Context, d idle.Drain) error { return idlefasthttp.Shutdown(ctx, d, l) },
		Rest:     11 * time.Second, // fasthttp's pool of workers
		Stats:    l.Stats,
		Tracker:  l.Tracker(),
	}, nil
}

func (w *World) serveFastHTTP(ctx *fasthttp.RequestCtx) {
	o := parseOrder(string(ctx.Path()))
	w.Begin(o.id)
	if o.kind == "limited" {
		if err := idlefasthttp.SetLimits(ctx, idlefasthttp.RequestLimits{HandlerTimeout: handlerLimit}); err != nil {
			w.Errorf("%s: %v", o.id, err)
		}
	}
	if body := ctx.RequestBodyStream(); body != nil {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return
		}
	}
	time.Sleep(o.wait)
	switch o.kind {
	case "error":
		ctx.Error(strings.Repeat("x", o.size), statuses[o.kind])
		ctx.Response.Header.Set("At", stamp())
	case "timeout":
		var late fasthttp.Response
		late.SetStatusCode(statuses[o.kind])
		late.SetBodyString(strings.Repeat("x", o.size))
		late.Header.Set("At", stamp())
		ctx.TimeoutErrorWithResponse(&late)
	default:
		text := strings.Repeat("x", o.size/2)
		ctx.Response.Header.Set("At", stamp())
		ctx.SetBodyStream(io.MultiReader(strings.NewReader(text), sleeps(o.wait), strings.NewReader(text)), 2*len(text))
	}
}

// sleeps is a reader that sleeps and then returns io.EOF.
type sleeps time.Duration

func (s sleeps) Read([]byte) (int, error) { time.Sleep(time.Duration(s)); return 0, io.EOF }

// A prober is a listener whose connections read as net/http of Go 1.28 does (golang/go#80735): the
// first Read after each response has a short deadline. The server's hook calls responded for that.
type prober struct{ net.Listener }

// mayProbe returns a prober around l in half of the worlds, and l in the others.
func (w *World) mayProbe(l net.Listener) net.Listener {
	if w.IntN(2) == 0 {
		return prober{l}
	}
	return l
}

func (p prober) Accept() (net.Conn, error) {
	nc, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &probed{Conn: nc}, nil
}

type probed struct {
	net.Conn
	isIdle bool // a response has been sent, and no Read has begun since
}

func (p *probed) NetConn() net.Conn { return p.Conn }

func (p *probed) Read(b []byte) (int, error) {
	if p.isIdle {
		p.isIdle = false
		p.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := p.Conn.Read(b)
		p.SetReadDeadline(time.Time{})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	return p.Conn.Read(b)
}

// responded makes the next Read probe, if nc is from a prober.
func responded(nc net.Conn) {
	if p, ok := nc.(*probed); ok {
		p.isIdle = true
	}
}
