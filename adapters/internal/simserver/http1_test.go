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
	BodyRate:         idle.Rate{BytesPerSecond: 1000, Grace: 5 * time.Second},
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

// byTimeout reports whether the world of a seed limits writes by WriteTimeout and not by WriteRate.
func byTimeout(seed uint64) bool { return seed%4 == 3 }

// stall is the WriteTimeout of such worlds.
const stall = 5 * time.Second

// writeLimit returns what ends a client that doesn't read, and by how much bytes that were taken at
// once delay that.
func (w *World) writeLimit(held time.Duration) (setting string, limit, more time.Duration) {
	switch {
	case byTimeout(w.Seed) && w.Kernel == simnet.Partial: // the first look at the queue may say that it moves
		return "WriteTimeout", stall, stall
	case byTimeout(w.Seed):
		return "WriteTimeout", stall, 0
	}
	return "WriteRate", limits.WriteRate.Grace, held * time.Second / 100_000
}

var quiet = log.New(io.Discard, "", 0)

// handlerLimit is the HandlerTimeout that some handlers set.
const handlerLimit = 10 * Tick

// An order is what a client asks a handler for. It is the path of a request:
// /id/size/milliseconds/kind.
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

// statuses are the kinds of orders, and how they are answered.
var statuses = map[string]int{
	"plain":   http.StatusOK,
	"error":   http.StatusInternalServerError, // by the server's function for errors
	"timeout": http.StatusServiceUnavailable,
	"limited": http.StatusOK, // with a HandlerTimeout
	"own":     http.StatusOK, // with read deadlines of the handler's
	"hints":   http.StatusOK, // after a 103
	"hangs":   http.StatusOK, // the response begins before the body is read
}

// stamp returns the value of a response's header At.
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
	accepts := net.Listener(l)
	if w.IntN(2) == 0 {
		accepts = prober{l}
	}
	return Server{
		Serve:    func() error { return server.Serve(accepts) },
		Shutdown: func(ctx context.Context, d idle.Drain) error { return idlehttp.Shutdown(ctx, d, l) },
		Stats:    l.Stats,
	}, l.Tracker().SetCapacity(idle.Capacity{PerKey: 10})
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
		rc.SetReadDeadline(time.Now().AddDate(300, 0, 0)) // for ever
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

// warmUp starts the goroutine of fasthttp that never ends.
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
	accepts := net.Listener(l)
	if w.IntN(2) == 0 {
		accepts = prober{l}
	}
	return Server{
		Serve:    func() error { return server.Serve(accepts) },
		Shutdown: func(ctx context.Context, d idle.Drain) error { return idlefasthttp.Shutdown(ctx, d, l) },
		Stats:    l.Stats,
		Rest:     11 * time.Second, // its pool of workers
	}, l.Tracker().SetCapacity(idle.Capacity{PerKey: 10})
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

// sleeps is a reader of nothing that takes a while.
type sleeps time.Duration

func (s sleeps) Read([]byte) (int, error) { time.Sleep(time.Duration(s)); return 0, io.EOF }

// A prober is a listener whose connections are read as by net/http of Go 1.28 (golang/go#80735):
// after each response with a short deadline first. The server's hook has to tell them of that.
type prober struct{ net.Listener }

func (p prober) Accept() (net.Conn, error) {
	nc, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &probed{Conn: nc}, nil
}

type probed struct {
	net.Conn
	isIdle bool // a response has been sent, and nothing read since
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

// responded has the next Read of nc probe, if it does so.
func responded(nc net.Conn) {
	if p, ok := nc.(*probed); ok {
		p.isIdle = true
	}
}

// kinds are what clients of HTTP/1 do.
var kinds = []func(*Client){
	honest, honest, honest, honest, impatient, slowHandler,
	noHeader, halfHeader, halfBody, idles, neverReads,
}

// A caller is a Client of HTTP/1.
type caller struct {
	*Client
	in *bufio.Reader
}

// connect returns nil if the server has left.
func connect(c *Client) *caller {
	if !c.Dial() {
		return nil
	}
	return &caller{c, bufio.NewReader(c.Conn)}
}

// request returns the text of a request.
func request(o order, body int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", o.path(), body, strings.Repeat("b", body))
}

// send writes text in pieces, with pauses that a limit allows.
func (c *caller) send(text string) error {
	for len(text) > 0 {
		n := len(text)
		if c.Rand.IntN(3) == 0 {
			n = 1 + c.Rand.IntN(n)
		}
		if _, err := io.WriteString(c.Conn, text[:n]); err != nil {
			return err
		}
		if text = text[n:]; text != "" {
			c.Pause(300)
		}
		if len(text) > 0 && c.Rand.IntN(3) > 0 {
			_, err := io.WriteString(c.Conn, text)
			return err
		}
	}
	return nil
}

// exchange makes a request and reads its response. It reports whether the connection can go on.
func (c *caller) exchange() bool {
	o := order{c.NextID(), c.Rand.IntN(60_000), time.Duration(c.Rand.IntN(200)) * time.Millisecond, "plain"}
	switch c.Rand.IntN(8) {
	case 0:
		o.kind = "error"
	case 1:
		o.kind = "timeout"
	case 2:
		o.kind = "own"
	}
	sent := c.send(request(o, c.Rand.IntN(3000)))
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		if c.Executed(o.id) {
			c.Errorf("%s on %v was executed, and got %v (sending: %v; the limit: %v)", o.path(), c.Conn.LocalAddr(), err, sent, c.End().Err)
		}
		return false
	}
	if r.StatusCode != statuses[o.kind] {
		c.Errorf("%s got %s", o.path(), r.Status)
		return false
	}
	if n, err := io.Copy(io.Discard, r.Body); err != nil {
		c.Errorf("%s on %v was cut after %d bytes of %s: %v (%v)", o.path(), c.Conn.LocalAddr(), n, r.Header.Get("Content-Length"), err, c.End().Err)
		return false
	}
	at, _ := time.Parse(time.RFC3339Nano, r.Header.Get("At"))
	if drained := c.Drained(); !drained.IsZero() && at.After(drained) && !r.Close {
		c.Errorf("%s was answered %v after the drain, and not asked to close", o.path(), at.Sub(drained))
	}
	return !r.Close
}

// honest makes requests. Often the next one comes at the moment at which KeepAliveTimeout passes.
func honest(client *Client) {
	for range 5 {
		c := connect(client)
		if c == nil {
			return
		}
		for range 1 + c.Rand.IntN(8) {
			if !c.exchange() {
				break
			}
			pause := time.Duration(c.Rand.IntN(1500)) * time.Millisecond
			if c.Rand.IntN(2) == 0 {
				pause = limits.KeepAliveTimeout + time.Duration(c.Rand.IntN(40)-4)*Tick/8
			}
			time.Sleep(pause)
		}
		c.Conn.Close()
	}
}

// impatient goes away in the middle.
func impatient(client *Client) {
	c := connect(client)
	if c == nil {
		return
	}
	text := request(order{c.NextID(), 100_000, 100 * time.Millisecond, "plain"}, 1000)
	c.send(text[:1+c.Rand.IntN(len(text))])
	c.Pause(400)
	switch c.Rand.IntN(3) {
	case 0:
		c.Conn.Reset()
	case 1:
		c.Conn.CloseWrite()
		io.Copy(io.Discard, c.Conn)
		c.Conn.Close()
	default:
		c.Conn.Close()
	}
}

// slowHandler has a handler respond at the moment at which its HandlerTimeout passes. Either the
// handler answers or the timeout does.
func slowHandler(client *Client) {
	for range 10 {
		c := connect(client)
		if c == nil {
			return
		}
		o := order{c.NextID(), 1 + c.Rand.IntN(10_000), handlerLimit + time.Duration(c.Rand.IntN(40)-20)*Tick/8, "limited"}
		io.WriteString(c.Conn, request(o, 0))
		r, err := http.ReadResponse(c.in, nil)
		if err != nil {
			c.Errorf("%s got %v", o.path(), err)
			c.Conn.Close()
			continue
		}
		b, err := io.ReadAll(r.Body)
		want, cut := strings.Repeat("x", o.size/2*2), false
		if r.StatusCode == http.StatusServiceUnavailable {
			want = http.StatusText(r.StatusCode)
		} else {
			cut = len(b) < len(want) && err != nil
			want = want[:len(b)]
		}
		if string(b) != want || err != nil && !cut {
			c.Errorf("%s got %s, %v and %.300q", o.path(), r.Status, err, b)
		}
		c.Conn.Close()
	}
}

func noHeader(c *Client) {
	if c.Dial() {
		c.WantEnd(time.Now(), "HandshakeTimeout", limits.HandshakeTimeout, LateAddr) // in which net/http doesn't read
	}
}

func halfHeader(c *Client) {
	if !c.Dial() {
		return
	}
	go io.Copy(io.Discard, c.Conn) // the 408
	since := time.Now()
	for _, b := range "POST / HT" { // a trickle gains nothing
		io.WriteString(c.Conn, string(b))
		time.Sleep(100 * time.Millisecond)
	}
	c.WantEnd(since, "HeaderTimeout", limits.HeaderTimeout, 0)
}

func halfBody(c *Client) {
	if !c.Dial() {
		return
	}
	go io.Copy(io.Discard, c.Conn)
	text := request(order{c.NextID(), 10, 0, "plain"}, 2000)
	io.WriteString(c.Conn, text[:len(text)-1500])
	c.WantEnd(time.Now(), "BodyTimeout", limits.BodyTimeout, 0)
}

// idles makes a request and then none. Some clients send a blank line after a body.
func idles(client *Client) {
	c := connect(client)
	if c == nil || !c.exchange() {
		return
	}
	since := time.Now()
	if c.Rand.IntN(2) == 0 {
		c.Pause(500)
		since = time.Now()
		io.WriteString(c.Conn, "\n")
	}
	go func() {
		if b, _ := io.ReadAll(c.in); len(b) > 0 {
			c.Errorf("%v got %q and has asked for nothing", c.Conn.LocalAddr(), b)
		}
	}()
	c.WantEnd(since, "KeepAliveTimeout", limits.KeepAliveTimeout, 0)
}

// neverReads takes several responses fast, large ones or small ones for which no write waits, and
// nothing of the next one.
func neverReads(client *Client) {
	c := connect(client)
	if c == nil {
		return
	}
	size, n := 1_000_000, c.Rand.IntN(3)
	if c.Rand.IntN(2) == 0 {
		size, n = 4000, 100
	}
	for range n {
		io.WriteString(c.Conn, request(order{c.NextID(), size, 0, "plain"}, 0))
		r, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return // the drain
		}
		if n, err := io.Copy(io.Discard, r.Body); err != nil {
			c.Errorf("a download was cut after %d bytes: %v", n, err)
			return
		}
		if r.Close {
			return
		}
	}
	since := time.Now()
	io.WriteString(c.Conn, request(order{c.NextID(), 1_000_000, 0, "plain"}, 0))
	setting, limit, more := c.writeLimit(Buffer + 16<<10) // what the network and a step of a write hold, which pays
	c.WantEnd(since, setting, limit, more)
}
