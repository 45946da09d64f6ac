package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// Role is the role of the server process. Programs that call Run or Cost have
// child.Main play it by Serve.
const Role = "server"

// An order says what the server process is to be.
type order struct {
	Kind, Variant string // as in server.Config
	Limits        Limits
	Clients       int // there are descriptors for so many connections; 0: no limit

	// Of a Flood.
	Echo   bool          // a server of net echoes
	Evict  time.Duration // the grace of a Capacity; 0 for none
	Most   int           // of the Capacity, as PerKey is
	PerKey int
}

// Serve is the server process.
func Serve(p *child.Parent) error {
	var o order
	if err := p.Hear(&o); err != nil {
		return err
	}
	s, err := newServer(&o)
	if err != nil {
		return err
	}
	if o.Evict > 0 {
		if err := s.Tracker.SetCapacity(idle.Capacity{MaxConns: o.Most, MinIdle: o.Evict, PerKey: o.PerKey}); err != nil {
			return err
		}
	}
	if o.Clients > 0 {
		if err := limitDescriptors(o.Clients); err != nil {
			return fmt.Errorf("limiting descriptors: %w", err)
		}
	}
	return s.Serve(p, func() any { return runtime.NumGoroutine() })
}

// newServer makes a server of the ordered kind. HTTP servers answer with as many
// bytes as the path says; the others take beats.
func newServer(o *order) (*server.Server, error) {
	l := o.Limits
	c := server.Config{
		Kind: o.Kind, Variant: o.Variant, Own: l.KeepAlive, Serve: takeBeats,
		Policy: idle.Policy{
			IdleTimeout: l.KeepAlive, ReadTimeout: l.Body, WriteTimeout: l.Write, MaxAge: 10 * l.KeepAlive,
			Heartbeat:    idle.Heartbeat{Interval: l.KeepAlive, Timeout: l.KeepAlive, Passive: true},
			MinReadRate:  idle.Rate{BytesPerSecond: l.Rate, Grace: l.Grace},
			MinWriteRate: idle.Rate{BytesPerSecond: l.WriteRate, Grace: l.Grace},
		},
		Timeouts: httplimits.Timeouts{
			HandshakeTimeout: l.Header, HeaderTimeout: l.Header,
			BodyTimeout: l.Body, BodyRate: idle.Rate{BytesPerSecond: l.Rate, Grace: l.Grace},
			WriteTimeout: l.Write, WriteRate: idle.Rate{BytesPerSecond: l.WriteRate, Grace: l.Grace},
			KeepAliveTimeout: l.KeepAlive,
		},
		Web: func(h *http.Server) {
			h.Handler = http.HandlerFunc(handleHTTP)
			h.Protocols = new(http.Protocols)
			h.Protocols.SetHTTP1(true)
			h.Protocols.SetHTTP2(o.Kind == server.HTTPS)
			h.Protocols.SetUnencryptedHTTP2(o.Kind == server.HTTP)
			if o.Variant == server.Own { // these know no rates, and ReadTimeout is for a whole request
				h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = l.Header, max(l.Header, l.Body), l.Write, l.KeepAlive
			}
		},
		Fast: func(h *fasthttp.Server) {
			h.Handler = handleFast
			if o.Variant == server.Own {
				h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = max(l.Header, l.Body), l.Write, l.KeepAlive
			}
		},
	}
	if o.Kind == server.Gnet {
		engine := new(gnetBeats)
		c.Engine = engine
		s, err := server.New(c)
		if err == nil {
			engine.timeouts = s.Gnet
		}
		return s, err
	}
	if o.Echo {
		c.Serve = nil
	}
	var err error
	if c.Listener, err = listen(); err != nil {
		return nil, err
	}
	if o.Evict == 0 {
		c.Listener = patient{c.Listener}
	}
	return server.New(c)
}

// listen returns a listener whose connections have small send buffers: so that a
// thousand slow readers do not take gigabytes of the kernel's memory, and so that
// it takes less than a film to fill them.
func listen() (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setSendBuffer(c, 32<<10) }}
	return config.Listen(context.Background(), "tcp", "127.0.0.1:0")
}

// patient is a listener that waits for a descriptor if there is none. net/http
// does so itself, but fasthttp would end. With a Capacity ours does so.
type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// handleHTTP takes a body, and answers with as many bytes as the path says.
//
// With TLS net/http itself answers when a body does not come, and waits for half
// a second before it closes, so such attackers are cut that much later.
func handleHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	content, err := find(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Write(content)
}

func handleFast(ctx *fasthttp.RequestCtx) {
	content, err := find(string(ctx.Path()))
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusNotFound)
		return
	}
	ctx.Response.SetBodyRaw(content)
}

// find returns the content at a path, which is as many bytes as it says.
func find(path string) ([]byte, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/"))
	if err != nil || n < 0 || n > len(film) {
		return nil, fmt.Errorf("the path is %q; it must be a number from 0 to %d", path, len(film))
	}
	return film[:n], nil
}

// film is what all content is a part of. It is shared, so that responses that
// wait take no memory of the server's. It is more than the buffers of both sides
// of a connection hold.
var film [1 << 20]byte

// What clients of the servers of net and gnet send. Nothing is answered.
const (
	beat  = 'b' // is a heartbeat, each byte one
	noise = 'n' // means nothing
	quit  = 'q' // asks the server to close
)

// takeBeats looks at each byte, and reports each beat if there are timeouts.
func takeBeats(c net.Conn) {
	defer c.Close()
	tracked, _ := c.(*idlenet.Conn)
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		for _, message := range b[:n] {
			switch {
			case message == quit:
				return
			case message != beat:
			case tracked != nil:
				tracked.Beat()
			}
		}
	}
}

// gnetBeats does with gnet what takeBeats does.
type gnetBeats struct {
	gnet.BuiltinEventEngine
	timeouts *idlegnet.Handler // nil if there are none
}

func (g *gnetBeats) OnTraffic(c gnet.Conn) gnet.Action {
	var tracked *idlegnet.Conn
	if g.timeouts != nil {
		tracked = g.timeouts.Conn(c)
	}
	b, _ := c.Next(-1)
	for _, message := range b {
		switch {
		case message == quit:
			return gnet.Close
		case message != beat:
		case tracked != nil:
			tracked.Beat()
		}
	}
	return gnet.None
}
