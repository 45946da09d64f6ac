package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// askEvery is how often a balancer asks each server whether it's ready.
const askEvery = 50 * time.Millisecond

// A balancer forwards connections to the latest server that is ready. It knows nothing of HTTP,
// and of TLS only that it has an address of its own.
type balancer struct {
	plain, secure net.Listener
	ask           *http.Client
	quit          context.CancelFunc

	mu       sync.Mutex
	backends []*backend
	ready    map[*backend]bool
}

func newBalancer() (*balancer, error) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		plain.Close()
		return nil, err
	}
	ctx, quit := context.WithCancel(context.Background())
	b := &balancer{plain: plain, secure: secure, quit: quit, ready: map[*backend]bool{},
		ask: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	go b.accept(plain, func(s *backend) string { return s.plain.Addr().String() })
	go b.accept(secure, func(s *backend) string { return s.secure.Addr().String() })
	go b.askAll(ctx)
	return b, nil
}

func (b *balancer) close() {
	b.quit()
	b.plain.Close()
	b.secure.Close()
}

func (b *balancer) add(s *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, s)
}

func (b *balancer) remove(s *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ready, s)
	for i, other := range b.backends {
		if other == s {
			b.backends = append(b.backends[:i:i], b.backends[i+1:]...)
			return
		}
	}
}

// awaitReady waits until new connections go to s.
func (b *balancer) awaitReady(ctx context.Context, s *backend) bool {
	for ctx.Err() == nil {
		b.mu.Lock()
		is := b.ready[s]
		b.mu.Unlock()
		if is {
			return true
		}
		time.Sleep(askEvery / 5)
	}
	return false
}

// askAll asks the servers whether they are ready, until ctx is done.
func (b *balancer) askAll(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		all := append([]*backend(nil), b.backends...)
		b.mu.Unlock()
		for _, s := range all {
			r, err := b.ask.Get("http://" + s.plain.Addr().String() + "/ready")
			is := err == nil && r.StatusCode == http.StatusOK
			if err == nil {
				r.Body.Close()
			}
			b.mu.Lock()
			b.ready[s] = is
			b.mu.Unlock()
		}
		time.Sleep(askEvery)
	}
}

// pick returns the latest server that is ready, or nil.
func (b *balancer) pick() (s *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.backends {
		if b.ready[other] {
			s = other
		}
	}
	return s
}

func (b *balancer) accept(l net.Listener, address func(*backend) string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			s := b.pick()
			if s == nil {
				return
			}
			server, err := net.Dial("tcp", address(s))
			if err != nil {
				return
			}
			defer server.Close()
			forward(client.(*net.TCPConn), server.(*net.TCPConn))
		}()
	}
}

// forward copies both ways until both have ended.
func forward(a, b *net.TCPConn) {
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{a, b}, {b, a}} {
		both.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil { // a reset is passed on
				a.Close()
				b.Close()
			}
			way[0].CloseWrite()
		})
	}
	both.Wait()
}
