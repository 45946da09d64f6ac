package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// timeouts are the limits of an HTTP server in our variant.
func (l *Limits) timeouts() httplimits.Timeouts {
	return httplimits.Timeouts{
		HandshakeTimeout: l.Header, HeaderTimeout: l.Header,
		BodyTimeout: l.Body, BodyRate: idle.Rate{BytesPerSecond: l.Rate, Grace: l.Grace},
		WriteTimeout: l.Write, WriteRate: idle.Rate{BytesPerSecond: l.WriteRate, Grace: l.Grace},
		KeepAliveTimeout: l.KeepAlive,
	}
}

// policy has all limits, for servers that have no phases.
func (l *Limits) policy() idle.Policy {
	return idle.Policy{
		IdleTimeout: l.KeepAlive, ReadTimeout: l.Body, WriteTimeout: l.Write, MaxAge: 10 * l.KeepAlive,
		Heartbeat:    idle.Heartbeat{Interval: l.KeepAlive, Timeout: l.KeepAlive, Passive: true},
		MinReadRate:  idle.Rate{BytesPerSecond: l.Rate, Grace: l.Grace},
		MinWriteRate: idle.Rate{BytesPerSecond: l.WriteRate, Grace: l.Grace},
	}
}

// serveHTTP serves HTTP/1 and HTTP/2, by TLS for the server "https".
//
// With TLS net/http itself answers when a body does not come, and waits for half
// a second before it closes, so such attackers are cut that much later.
func serveHTTP(s *spec, ln net.Listener, b *book) error {
	b.listening(ln.Addr())
	secure := s.Server == "https"
	h := &http.Server{
		Handler:  http.HandlerFunc(handleHTTP),
		ErrorLog: log.New(io.Discard, "", 0), // there will be much about descriptors
		ConnState: func(nc net.Conn, state http.ConnState) {
			b.changed(nc, state == http.StateNew, state == http.StateClosed)
		},
		Protocols: new(http.Protocols),
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(secure)
	h.Protocols.SetUnencryptedHTTP2(!secure)
	if s.Variant == own { // these know no rates, and ReadTimeout is for a whole request
		l := s.Limits
		h.ReadHeaderTimeout = l.Header
		h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = max(l.Header, l.Body), l.Write, l.KeepAlive
	}
	if secure {
		var err error
		if h.TLSConfig, err = certificate(); err != nil {
			return err
		}
	}
	switch {
	case s.Variant == ours && secure:
		return idlehttp.ServeTLS(h, ln, "", "", s.Limits.timeouts())
	case s.Variant == ours:
		return idlehttp.Serve(h, ln, s.Limits.timeouts())
	case secure:
		return h.ServeTLS(ln, "", "")
	}
	return h.Serve(ln)
}

// handleHTTP takes a body, and answers with as many bytes as the path says.
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

// certificate returns a configuration with one that nobody is to trust.
func certificate() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}

func serveFasthttp(s *spec, ln net.Listener, b *book) error {
	b.listening(ln.Addr())
	h := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			content, err := find(string(ctx.Path()))
			if err != nil {
				ctx.Error(err.Error(), fasthttp.StatusNotFound)
				return
			}
			ctx.Response.SetBodyRaw(content)
		},
		Logger: log.New(io.Discard, "", 0),
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			b.changed(nc, state == fasthttp.StateNew, state == fasthttp.StateClosed)
		},
	}
	switch l := s.Limits; s.Variant {
	case ours:
		return idlefasthttp.Serve(h, ln, l.timeouts())
	case own:
		h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = max(l.Header, l.Body), l.Write, l.KeepAlive
	}
	return h.Serve(ln)
}

// What clients of the servers "net" and "gnet" send.
const (
	beat  = 'b' // is a heartbeat, each byte one
	noise = 'n' // means nothing
	quit  = 'q' // asks the server to close
)

// serveNet takes beats, and answers nothing.
func serveNet(s *spec, ln net.Listener, b *book) (err error) {
	b.listening(ln.Addr())
	if s.Variant == ours {
		if ln, err = idlenet.Wrap(ln, s.Limits.policy(), nil); err != nil {
			return err
		}
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go takeBeats(c)
	}
}

// takeBeats looks at each byte, and reports each beat if there are timeouts.
func takeBeats(c net.Conn) {
	defer c.Close()
	tracked, _ := c.(*idlenet.Conn)
	b, beats := make([]byte, 4096), 0
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
			default:
				beats++
			}
		}
	}
}

// gnetBeats does with gnet what takeBeats does.
type gnetBeats struct {
	gnet.BuiltinEventEngine
	timeouts *idlegnet.Handler // nil if there are none
	booted   func()
	beats    int
}

func serveGnet(s *spec, ln net.Listener, b *book) (err error) {
	address := ln.Addr() // gnet does not tell which port it has chosen
	ln.Close()
	g := &gnetBeats{booted: func() { b.listening(address) }}
	var h gnet.EventHandler = g
	if s.Variant == ours {
		if g.timeouts, err = idlegnet.Wrap(g, s.Limits.policy(), nil); err != nil {
			return err
		}
		h = g.timeouts
	}
	return gnet.Run(h, "tcp://"+address.String(), gnet.WithLogger(NoLog{}))
}

func (g *gnetBeats) OnBoot(gnet.Engine) gnet.Action {
	g.booted()
	return gnet.None
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
		default:
			g.beats++
		}
	}
	return gnet.None
}

// NoLog is a log of nothing, for gnet. Peers that reset connections are usual
// here.
type NoLog struct{}

func (NoLog) Debugf(string, ...any) {}
func (NoLog) Infof(string, ...any)  {}
func (NoLog) Warnf(string, ...any)  {}
func (NoLog) Errorf(string, ...any) {}
func (NoLog) Fatalf(string, ...any) {}
