package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// The limits are short, so that many pass. They are the same everywhere, so that
// the clients' lives can be.
const (
	limit = time.Second
	tick  = 10 * time.Millisecond // the trackers' default

	pingInterval = limit / 2
	pingTimeout  = limit / 4
	pingMisses   = 2
	staleAfter   = pingInterval + pingMisses*pingTimeout // since a peer was last heard

	writeRate  = 64 << 10 // bytes a second
	writeGrace = limit / 2
	bodyRate   = 1000
	bodyGrace  = limit
)

func pingPolicy() idle.Policy {
	return idle.Policy{Name: "ping", Heartbeat: idle.Heartbeat{Interval: pingInterval, Timeout: pingTimeout, Misses: pingMisses}}
}

func streamPolicy() idle.Policy {
	return idle.Policy{Name: "stream", MinWriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: writeGrace}}
}

// httpTimeouts are the limits of HTTP. Writing and bodies are to be ended by their
// rates, so their timeouts are out of the way.
func httpTimeouts() httplimits.Timeouts {
	return httplimits.Timeouts{
		HandshakeTimeout: limit, HeaderTimeout: limit, KeepAliveTimeout: limit, StreamTimeout: limit,
		BodyTimeout: 10 * limit, BodyRate: idle.Rate{BytesPerSecond: bodyRate, Grace: bodyGrace},
		WriteTimeout: 10 * limit, WriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: writeGrace},
	}
}

// A target is a server under load, which runs in this process.
type target struct {
	*server.Server
	kind
	ledger *ledger
	dials  atomic.Uint64
}

// A kind says of what kind a target is, and which lives clients lead on it. The
// first is also that of the veterans, who live as long as the soak.
type kind struct {
	name   string
	server string
	lives  []life
}

func kinds() []kind {
	return []kind{
		{"idlenet", server.Net, echoLives()},
		{"idlegnet", server.Gnet, echoLives()},
		{"http", server.HTTP, httpLives()},
		{"http2", server.HTTPS, http2Lives()},
		{"hijacked", server.HTTP, hijackLives()},
		{"fasthttp", server.Fasthttp, httpLives()},
	}
}

// startTargets starts the servers that are asked for. What it returns has to be
// stopped, whatever the error.
func startTargets(wanted []string) (all []*target, err error) {
	for _, k := range kinds() {
		if !slices.Contains(wanted, k.name) {
			continue
		}
		t := &target{kind: k, ledger: newLedger()}
		if err := t.start(); err != nil {
			return all, fmt.Errorf("starting %s: %w", k.name, err)
		}
		all = append(all, t)
	}
	return all, nil
}

func stopTargets(all []*target) (err error) {
	for _, t := range all {
		if failed := errors.Join(t.Stop(), t.Err()); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", t.name, failed))
		}
	}
	return err
}

// gnetBuffer is small, so that gnet itself holds most of a stream back.
const gnetBuffer = 64 << 10

func (t *target) start() (err error) {
	e := &echoes{ledger: t.ledger}
	limits := httpTimeouts()
	if t.server == server.Fasthttp {
		limits.StreamTimeout = 0 // it does not speak HTTP/2
	}
	limits.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
		t.ledger.timedOut(c.RemoteAddr(), err)
		return false
	}
	t.Server, err = server.New(server.Config{
		Kind: t.server, Variant: server.Ours,
		Policy: idle.Policy{IdleTimeout: limit},
		Net: &idlenet.Options{Ping: func(c *idlenet.Conn) error {
			_, err := c.Write([]byte{ping})
			return err
		}},
		Serve:       e.serve,
		Gnet:        &idlegnet.Options{Ping: func(c gnet.Conn) error { _, err := c.Write([]byte{ping}); return err }},
		GnetOptions: []gnet.Option{gnet.WithMulticore(true), gnet.WithSocketSendBuffer(gnetBuffer)},
		Engine:      &gnetEchoes{echoes: e, target: t},
		Timeouts:    limits,
		Web:         func(h *http.Server) { h.Handler = pages(t.ledger) },
		Fast: func(h *fasthttp.Server) {
			h.Handler = fastPages
			h.MaxIdleWorkerDuration = limit // or idle goroutines pass for a leak for 10 s
		},
	})
	if err != nil {
		return err
	}
	if t.server == server.Net {
		if err := e.prepare(t.Tracker.Phase); err != nil {
			return err
		}
	}
	return t.Start()
}

// pages is what all net/http servers serve.
func pages(l *ledger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPage, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, pageText) })
	mux.HandleFunc("GET "+pathStream, func(w http.ResponseWriter, _ *http.Request) { writeStream(w) })
	mux.HandleFunc("POST "+pathBody, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			io.WriteString(w, pageText)
		}
	})
	mux.HandleFunc("GET "+pathHang, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("GET "+pathPings, pingHijacked)
	return mux
}

// stream is what those who read slowly get.
var stream = make([]byte, 1<<20)

func writeStream(w io.Writer) (err error) {
	for err == nil {
		_, err = w.Write(stream[:64<<10])
	}
	return err
}

// pingHijacked takes a connection over and pings it, as one does with a
// WebSocket.
func pingHijacked(w http.ResponseWriter, r *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: pings\r\n\r\n"); err != nil {
		return
	}
	err = idlehttp.Watch(r, pingPolicy(), idlehttp.Callbacks{Ping: func() error {
		_, err := c.Write([]byte{ping})
		return err
	}})
	if err == nil {
		io.Copy(io.Discard, rw)
	}
}

func fastPages(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) != pathStream {
		ctx.WriteString(pageText)
		return
	}
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) { writeStream(w) })
}

// Echoes are the connections of an echo server. The first byte of a connection
// says what it is to do.
type echoes struct {
	pings, stream *idle.Phase
	ledger        *ledger
}

// prepare makes the phases.
func (e *echoes) prepare(phase func(idle.Policy) (*idle.Phase, error)) (err error) {
	if e.pings, err = phase(pingPolicy()); err == nil {
		e.stream, err = phase(streamPolicy())
	}
	return err
}

// serve serves a connection of package net.
func (e *echoes) serve(nc net.Conn) {
	c := nc.(*idlenet.Conn)
	defer c.Close()
	e.ledger.timedOut(c.RemoteAddr(), e.converse(c))
}

func (e *echoes) converse(c *idlenet.Conn) error {
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	switch b[0] {
	case modeStream:
		c.Enter(e.stream)
		return writeStream(c)
	case modePing:
		c.Enter(e.pings)
		for err == nil {
			_, err = c.Read(b)
		}
		return err
	}
	for err == nil {
		if _, err = c.Write(b[:n]); err == nil {
			n, err = c.Read(b)
		}
	}
	return err
}

// gnetEchoes does the same with gnet.
type gnetEchoes struct {
	gnet.BuiltinEventEngine
	*echoes
	target *target
}

func (e *gnetEchoes) OnBoot(gnet.Engine) gnet.Action {
	if e.prepare(e.target.Gnet.Phase) != nil {
		return gnet.Shutdown
	}
	return gnet.None
}

func (e *gnetEchoes) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	if len(b) == 0 {
		return gnet.None
	}
	mode, known := c.Context().(byte)
	if !known {
		mode = b[0]
		c.SetContext(mode)
		switch mode {
		case modeStream:
			e.target.Gnet.Conn(c).Enter(e.stream)
			c.Write(stream)
		case modePing:
			e.target.Gnet.Conn(c).Enter(e.pings)
		}
	}
	if mode == modeEcho {
		c.Write(b)
	}
	return gnet.None
}

func (e *gnetEchoes) OnClose(c gnet.Conn, err error) gnet.Action {
	e.ledger.timedOut(c.RemoteAddr(), err)
	return gnet.None
}
