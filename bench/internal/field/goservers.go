package field

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlegrpc"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
	"github.com/idlewheel/idlewheel/idle"
)

// goServers are those that run in this process.
func goServers() []Server {
	return []Server{
		{Name: "net/http", about: runtime.Version, Config: "without timeouts, as http.Server is when zero",
			start: web(func() *http.Server { return &http.Server{} }, nil, 0)},
		{Name: "net/http-timeouts", about: runtime.Version,
			Config: "ReadHeaderTimeout 5 s, ReadTimeout 30 s, WriteTimeout 60 s, IdleTimeout 75 s: its four timeouts, at values that let an upload of 30 s pass",
			start: web(func() *http.Server {
				return &http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 75 * time.Second}
			}, nil, 0)},
		{Name: "idlehttp", about: ours, ours: true, Config: "the zero Timeouts; WebSockets are pinged every 10 s",
			start: web(func() *http.Server { return &http.Server{} }, &idlehttp.Timeouts{}, 10*time.Second)},
		{Name: "fasthttp", about: version("github.com/valyala/fasthttp"), Config: "without timeouts, as fasthttp.Server is when zero", start: fast(nil, nil)},
		{Name: "fasthttp-own", about: version("github.com/valyala/fasthttp"), Config: "ReadTimeout 30 s, WriteTimeout 60 s, IdleTimeout 75 s",
			start: fast(func(s *fasthttp.Server) {
				s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 30*time.Second, time.Minute, 75*time.Second
			}, nil)},
		{Name: "idlefasthttp", about: ours, ours: true, Config: "the zero Timeouts", start: fast(nil, &idlefasthttp.Timeouts{})},
		{Name: "gnet", about: version("github.com/panjf2000/gnet/v2"), Config: "an echo server; gnet has no timeouts", start: echoLoop(nil)},
		{Name: "idlegnet", about: ours, ours: true, Config: "an echo server with an IdleTimeout of 30 s", start: echoLoop(&idle.Policy{IdleTimeout: 30 * time.Second})},
		{Name: "idlenet", about: ours, ours: true, Config: "a small broker of MQTT: 5 s for the CONNECT, then one and a half times the client's keep alive", start: broker(5 * time.Second)},
		{Name: "grpc-go", about: version("google.golang.org/grpc"),
			Config: "ConnectionTimeout 20 s, keepalive.ServerParameters with Time 20 s, Timeout 10 s and MaxConnectionIdle 75 s, EnforcementPolicy with MinTime 10 s (grpc.io, Keepalive; the times are shorter than there)",
			start: calls(nil, grpc.ConnectionTimeout(20*time.Second), grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: 75 * time.Second}),
				grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}))},
		{Name: "idlegrpc", about: ours, ours: true, Config: "the zero Timeouts, on grpc-go without keepalive", start: calls(&idlegrpc.Timeouts{})},
	}
}

// version returns what returns the version of a module in this program.
func version(module string) func() string {
	return func() string {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			return ""
		}
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version
			}
		}
		return ""
	}
}

func ours() string { return "this tree" }

// web returns what starts a server of net/http with TLS and HTTP/2, with our timeouts if
// limits is not nil.
func web(make func() *http.Server, limits *idlehttp.Timeouts, beat time.Duration) func() (slow.Target, func(), error) {
	return func() (t slow.Target, stop func(), err error) {
		s := make()
		ln, err := server.Listen()
		if err != nil {
			return t, nil, err
		}
		certificate, err := server.Certificate()
		if err != nil {
			return t, nil, err
		}
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
		s.Handler, s.ErrorLog = handler(beat), quiet
		wrapped := net.Listener(ln)
		if limits != nil {
			if wrapped, err = idlehttp.Wrap(s, ln, *limits); err != nil {
				return t, nil, err
			}
		}
		go s.ServeTLS(wrapped, "", "")
		return target("https", ln.Addr().String(), "tcp", "tls", "h1", "h2", "ws"), func() { s.Close() }, nil
	}
}

// serveHTTP serves without TLS and without timeouts, as what is behind a proxy.
func serveHTTP(s *http.Server) (address string, stop func(), err error) {
	ln, err := server.Listen()
	if err != nil {
		return "", nil, err
	}
	s.Handler, s.ErrorLog = handler(0), quiet
	go s.Serve(ln)
	return ln.Addr().String(), func() { s.Close() }, nil
}

// film is what is large.
var film = strings.Repeat("idlewheel\n", filmSize/10)

// handler serves the paths of a target. If beat is set, idlewheel pings WebSockets that have been
// silent for that long. Because any byte answers a ping, each kilobyte of a message then has a
// limit of three beats.
func handler(beat time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, server.Greeting) })
	mux.HandleFunc(uploadPath, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "thanks")
	})
	mux.HandleFunc(filmPath, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, film) })
	mux.HandleFunc(eventsPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	mux.HandleFunc(wsPath, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		if beat > 0 {
			policy := idle.Policy{WriteTimeout: beat, Heartbeat: idle.Heartbeat{Interval: beat, Timeout: beat / 2}}
			if err := idlehttp.Watch(r, policy, idlehttp.Callbacks{Ping: func() error { go c.Ping(context.Background()); return nil }}); err != nil {
				return
			}
		}
		for {
			_, message, err := c.Reader(context.Background())
			if err != nil {
				return
			}
			for err == nil {
				late := time.AfterFunc(cmp.Or(3*beat, 24*time.Hour), func() { c.CloseNow() })
				_, err = io.CopyN(io.Discard, message, 1000)
				late.Stop()
			}
			if err != io.EOF {
				return
			}
		}
	})
	return mux
}

// fast returns what starts a server of fasthttp.
func fast(set func(*fasthttp.Server), limits *idlefasthttp.Timeouts) func() (slow.Target, func(), error) {
	return func() (t slow.Target, stop func(), err error) {
		s := &fasthttp.Server{Logger: quiet, StreamRequestBody: true, Handler: func(ctx *fasthttp.RequestCtx) {
			switch string(ctx.Path()) {
			case uploadPath:
				if _, err := io.Copy(io.Discard, ctx.RequestBodyStream()); err != nil {
					ctx.SetConnectionClose()
				}
				ctx.WriteString("thanks")
			case filmPath:
				ctx.WriteString(film)
			default:
				ctx.WriteString(server.Greeting)
			}
		}}
		if set != nil {
			set(s)
		}
		ln, err := server.Listen()
		if err != nil {
			return t, nil, err
		}
		wrapped := net.Listener(ln)
		if limits != nil {
			if wrapped, err = idlefasthttp.Wrap(s, ln, *limits); err != nil {
				return t, nil, err
			}
		}
		go s.Serve(wrapped)
		t = target("http", ln.Addr().String(), "tcp", "h1")
		t.Stream, t.WS = "", ""
		return t, func() { wrapped.Close() }, nil
	}
}

// echoLoop returns what starts an echo server of gnet, with a policy if there is one.
func echoLoop(p *idle.Policy) func() (slow.Target, func(), error) {
	return func() (t slow.Target, stop func(), err error) {
		c := server.Config{Kind: server.Gnet, Variant: server.Bare}
		if p != nil {
			c.Variant, c.Policy, c.Gnet = server.Ours, *p, &idlegnet.Options{}
		}
		s, err := server.New(c)
		if err != nil {
			return t, nil, err
		}
		if err := s.Start(); err != nil {
			return t, nil, err
		}
		return target("tcp", s.Address, "tcp"), func() { s.Stop() }, nil
	}
}

// broker returns what starts a broker of MQTT that knows CONNECT and PINGREQ. A CONNECT may take
// as long as limit says, and then clients have to do as they have promised. 0 means no limits.
func broker(limit time.Duration) func() (slow.Target, func(), error) {
	return func() (slow.Target, func(), error) { return startBroker(limit) }
}

func startBroker(limit time.Duration) (t slow.Target, stop func(), err error) {
	bare, err := server.Listen()
	if err != nil {
		return t, nil, err
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{Name: "connect", PhaseTimeout: cmp.Or(limit, 24*time.Hour)}, nil)
	if err != nil {
		return t, nil, err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serveMQTT(ln.Tracker(), c.(*idlenet.Conn), limit > 0)
			}()
		}
	}()
	t = target("tcp", bare.Addr().String(), "tcp", "mqtt")
	t.MQTT = true
	return t, func() { ln.Close() }, nil
}

// serveMQTT serves a client.
func serveMQTT(tracker *idle.Tracker, c *idlenet.Conn, limited bool) error {
	kind, body, err := readMQTT(c)
	if err != nil || kind != 1 || len(body) < 10 {
		return errors.Join(err, errors.New("no CONNECT"))
	}
	keepAlive := time.Duration(body[8])<<8*time.Second + time.Duration(body[9])*time.Second
	if !limited {
		keepAlive = 24 * time.Hour
	}
	online, err := tracker.Phase(idle.Policy{Name: "online", IdleTimeout: keepAlive * 3 / 2, WriteTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	c.Enter(online)
	c.Write([]byte{0x20, 2, 0, 0})
	for {
		switch kind, _, err := readMQTT(c); {
		case err != nil:
			return err
		case kind == 12:
			c.Write([]byte{0xd0, 0})
		}
	}
}

// readMQTT reads a packet.
func readMQTT(r io.Reader) (kind byte, body []byte, err error) {
	head := make([]byte, 1)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	kind = head[0] >> 4
	size := 0
	for shift := 0; ; shift += 7 {
		if _, err := io.ReadFull(r, head); err != nil {
			return 0, nil, err
		}
		size |= int(head[0]&0x7f) << shift
		if head[0]&0x80 == 0 {
			break
		}
		if shift > 14 {
			return 0, nil, errors.New("a packet of more than 2 MB")
		}
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return kind, body, err
}

// raw is a codec of gRPC for messages that are bytes.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}
func (raw) Name() string { return "raw" }

var _ encoding.Codec = raw{}

// calls returns what starts a server of grpc-go whose every method answers each message with
// 64 kB, with our timeouts if limits is not nil.
func calls(limits *idlegrpc.Timeouts, options ...grpc.ServerOption) func() (slow.Target, func(), error) {
	return func() (t slow.Target, stop func(), err error) {
		ln, err := server.Listen()
		if err != nil {
			return t, nil, err
		}
		certificate, err := server.Certificate()
		if err != nil {
			return t, nil, err
		}
		creds := credentials.NewServerTLSFromCert(&certificate)
		wrapped := net.Listener(ln)
		if limits != nil {
			l, err := idlegrpc.Wrap(ln, *limits)
			if err != nil {
				return t, nil, err
			}
			wrapped, creds = l, l.Credentials(creds)
		}
		s := grpc.NewServer(append(options, grpc.Creds(creds), grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(answerAll))...)
		go s.Serve(wrapped)
		const method = "/x.Y/Z"
		return slow.Target{Scheme: "https", Address: ln.Addr().String(), Host: "localhost", Protocols: []string{"tcp", "grpc", "h2"}, Get: method, GRPC: method}, s.Stop, nil
	}
}

// answerAll answers each message of a stream.
func answerAll(_ any, stream grpc.ServerStream) error {
	for {
		var m []byte
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		answer := []byte(strings.Repeat("x", 1<<16))
		if err := stream.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// Guards are servers of all protocols, for tests of the cases.
type Guards struct {
	Targets []slow.Target
	stop    []func()
}

// Stop stops them.
func (g *Guards) Stop() {
	for _, stop := range g.stop {
		stop()
	}
}

// Guarded starts servers whose every limit is the given one, or that have none if it is 0.
func Guarded(limit time.Duration) (g *Guards, err error) {
	g = &Guards{}
	var limits *idlehttp.Timeouts
	if limit > 0 {
		limits = &idlehttp.Timeouts{
			// The first header may count as a part of the handshake.
			HandshakeTimeout: 2 * limit, HeaderTimeout: 2 * limit,
			BodyTimeout: limit, WriteTimeout: 2 * limit, KeepAliveTimeout: 3 * limit,
			BodyRate: idle.Rate{BytesPerSecond: 240, Grace: limit}, WriteRate: idle.Rate{BytesPerSecond: 24_000, Grace: 2 * limit}, // 64 kB, which a window has, pay for few seconds
		}
	}
	for _, start := range []func() (slow.Target, func(), error){
		web(func() *http.Server { return &http.Server{} }, limits, limit),
		broker(2 * limit), // an honest CONNECT may take 3 s
		calls(limits),
	} {
		t, stop, err := start()
		if err != nil {
			g.Stop()
			return nil, err
		}
		g.Targets, g.stop = append(g.Targets, t), append(g.stop, stop)
	}
	return g, nil
}
