package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// A backend is a server, with one listener without TLS and one with it.
type backend struct {
	server        *http.Server
	plain, secure *idlehttp.Listener
	own           bool        // its http.Server shuts it down
	leaving       atomic.Bool // it does
	sockets       sync.Map    // *websocket.Conn that are open
}

func startBackend(c config, certificate tls.Certificate) (*backend, error) {
	b := &backend{own: c.own}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", b.ready)
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			w.Write(body)
		}
	})
	mux.HandleFunc("GET /ws", b.socket)
	b.server = &http.Server{
		Handler:   mux,
		ErrorLog:  log.New(io.Discard, "", 0), // clients go away in the middle of a handshake
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}},
		Protocols: new(http.Protocols),
	}
	b.server.Protocols.SetHTTP1(true)
	b.server.Protocols.SetHTTP2(true)
	b.server.Protocols.SetUnencryptedHTTP2(true)
	for _, l := range []**idlehttp.Listener{&b.plain, &b.secure} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		if *l, err = idlehttp.Wrap(b.server, ln, idlehttp.Timeouts{}); err != nil {
			return nil, err
		}
	}
	go b.server.Serve(b.plain)
	go b.server.ServeTLS(b.secure, "", "")
	return b, nil
}

// ready tells the balancer whether to send new clients.
func (b *backend) ready(w http.ResponseWriter, r *http.Request) {
	if b.leaving.Load() || b.plain.IsDraining() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// goodbye is the message that asks the client of a WebSocket to close it. A close frame instead
// would cut off what the client sends at the same time.
const goodbye = "goodbye"

// socket echoes messages. When the connection is asked to finish, its client is asked to close.
func (b *backend) socket(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	b.sockets.Store(ws, true)
	defer b.sockets.Delete(ws)
	ctx := context.Background()
	policy := idle.Policy{Name: "websocket", IdleTimeout: 5 * time.Minute, WriteTimeout: 10 * time.Second}
	if !b.own {
		onDrain := func() { ws.Write(ctx, websocket.MessageText, []byte(goodbye)) }
		if err := idlehttp.Watch(r, policy, idlehttp.Callbacks{OnDrain: onDrain}); err != nil {
			return
		}
	}
	for {
		kind, text, err := ws.Read(ctx)
		if err != nil {
			return
		}
		if err := ws.Write(ctx, kind, text); err != nil {
			return
		}
	}
}

// leave has the clients leave, and shuts the server down.
func (b *backend) leave(ctx context.Context, c config) error {
	ctx, cancel := context.WithTimeout(ctx, c.lameDuck+c.drain+30*time.Second)
	defer cancel()
	if b.own {
		b.leaving.Store(true)
		time.Sleep(c.lameDuck)
		return b.server.Shutdown(ctx)
	}
	if err := idlehttp.LameDuck(ctx, c.lameDuck, b.plain, b.secure); err != nil {
		return err
	}
	return idlehttp.Shutdown(ctx, idle.Drain{Duration: c.drain, ForceAfter: c.drain + 20*time.Second}, b.plain, b.secure)
}

// kill is the end of the process: it ends what is left.
func (b *backend) kill() error {
	b.sockets.Range(func(ws, _ any) bool { ws.(*websocket.Conn).CloseNow(); return true })
	return errors.Join(b.server.Close(), b.plain.Close(), b.secure.Close())
}
