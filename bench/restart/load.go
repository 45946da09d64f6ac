package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// patience is how long a client waits for an answer.
const patience = 30 * time.Second

// A kind is what clients have in common.
type kind struct {
	name          string
	secure, http2 bool
	websocket     bool

	requests, failed, connections atomic.Int64
	first                         atomic.Pointer[error] // of those that failed
}

// A load is all clients.
type load struct {
	c     config
	b     *balancer
	kinds []*kind
}

func newLoad(c config, b *balancer) *load {
	return &load{c, b, []*kind{
		{name: "HTTP/1"},
		{name: "HTTP/1, TLS", secure: true},
		{name: "HTTP/2", http2: true},
		{name: "HTTP/2, TLS", secure: true, http2: true},
		{name: "WebSocket", websocket: true},
		{name: "WebSocket, TLS", secure: true, websocket: true},
	}}
}

func (l *load) sum(of func(*kind) int64) (n int64) {
	for _, k := range l.kinds {
		n += of(k)
	}
	return n
}

func (l *load) requests() int64 { return l.sum(func(k *kind) int64 { return k.requests.Load() }) }
func (l *load) failed() int64   { return l.sum(func(k *kind) int64 { return k.failed.Load() }) }

func (l *load) outcomes() (all []outcome) {
	for _, k := range l.kinds {
		o := outcome{Kind: k.name, Requests: k.requests.Load(), Failed: k.failed.Load(), Connections: k.connections.Load()}
		if err := k.first.Load(); err != nil {
			o.Error = (*err).Error()
		}
		all = append(all, o)
	}
	return all
}

// start starts the clients. They end when ctx is done, after the request that they are making.
func (l *load) start(ctx context.Context, clients *sync.WaitGroup) {
	for _, k := range l.kinds {
		for i := range l.c.clients {
			clients.Go(func() {
				if k.websocket {
					l.talk(ctx, k, i)
				} else {
					l.post(ctx, k, i)
				}
			})
		}
	}
}

// done counts a request.
func (k *kind) done(err error) {
	k.requests.Add(1)
	if err != nil {
		k.failed.Add(1)
		k.first.CompareAndSwap(nil, &err)
	}
}

// address returns where the clients of k connect.
func (l *load) address(k *kind) string {
	if k.secure {
		return l.b.secure.Addr().String()
	}
	return l.b.plain.Addr().String()
}

// pause waits for some time up to -pause.
func (l *load) pause() { time.Sleep(rand.N(l.c.pause)) }

// transport returns a Transport for one client.
func (l *load) transport(k *kind) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	tr.Protocols.SetHTTP1(!k.http2)
	tr.Protocols.SetHTTP2(k.http2 && k.secure)
	tr.Protocols.SetUnencryptedHTTP2(k.http2 && !k.secure)
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		k.connections.Add(1)
		return new(net.Dialer).DialContext(ctx, network, l.address(k))
	}
	return tr
}

// post makes one request after the other.
func (l *load) post(ctx context.Context, k *kind, i int) {
	tr := l.transport(k)
	defer tr.CloseIdleConnections()
	client := http.Client{Transport: tr, Timeout: patience}
	url := map[bool]string{false: "http", true: "https"}[k.secure] + "://" + l.address(k) + "/"
	for n := 0; ctx.Err() == nil; n++ {
		text := fmt.Sprint(i, " ", n)
		k.done(func() error {
			r, err := client.Post(url, "text/plain", strings.NewReader(text))
			if err != nil {
				return err
			}
			defer r.Body.Close()
			if b, err := io.ReadAll(r.Body); err != nil || string(b) != text {
				return fmt.Errorf("%q, %v, want %q", b, err, text)
			}
			return nil
		}())
		l.pause()
	}
}

// talk sends one message after the other, and waits for the echo of each. It connects again when
// it's asked to close.
func (l *load) talk(ctx context.Context, k *kind, i int) {
	scheme := map[bool]string{false: "ws", true: "wss"}[k.secure]
	client := &http.Client{Transport: l.transport(k)}
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(context.Background(), patience)
		ws, _, err := websocket.Dial(limited, scheme+"://"+l.address(k)+"/ws", &websocket.DialOptions{HTTPClient: client})
		cancel()
		if err != nil {
			k.done(err)
			l.pause()
			continue
		}
		for n, leaving := 0, false; ctx.Err() == nil && !leaving && err == nil; n++ {
			text := fmt.Sprint(i, " ", n)
			leaving, err = exchange(ws, text)
			k.done(err)
			l.pause()
		}
		ws.Close(websocket.StatusNormalClosure, "")
	}
}

// exchange sends a message and waits for its echo. leaving says that the server has asked to close.
func exchange(ws *websocket.Conn, text string) (leaving bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		return false, err
	}
	for {
		_, got, err := ws.Read(ctx)
		switch {
		case err != nil:
			return leaving, err
		case string(got) == goodbye:
			leaving = true
		case string(got) == text:
			return leaving, nil
		default:
			return leaving, fmt.Errorf("got %q, want %q", got, text)
		}
	}
}
