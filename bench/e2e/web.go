//go:build linux

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A webLoad is a load by net/http's client, which speaks TLS. It can cost as much as the server
// does, so requests per second say less here than CPU time per request.
type webLoad struct {
	conns   []*server.Client
	streams int // of each connection, that have a request in progress
}

// streams is how many streams of a connection of HTTP/2 have a request in progress.
const streams = 8

// connectWeb opens n connections, and makes a request on each.
func connectWeb(kind, address string, n int) (*webLoad, error) {
	l := &webLoad{streams: 1}
	if kind == server.HTTP2 {
		l.streams = streams
	}
	for range n {
		c, err := server.Dial(kind, address)
		if err == nil {
			l.conns = append(l.conns, c)
			err = c.Exchange()
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d: %w", len(l.conns), err)
		}
	}
	return l, nil
}

func (l *webLoad) close() {
	for _, c := range l.conns {
		c.Close()
	}
}

func (l *webLoad) run(d time.Duration) (turn, error) {
	from := time.Now().Add(warmUp)
	until := from.Add(d)
	var done, ops atomic.Int64
	var failed atomic.Pointer[error]
	var asking sync.WaitGroup
	for _, c := range l.conns {
		for range l.streams {
			asking.Go(func() {
				for now := time.Now(); now.Before(until); now = time.Now() {
					if err := c.Exchange(); err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
					ops.Add(1)
					if now.After(from) {
						done.Add(1)
					}
				}
			})
		}
	}
	asking.Wait()
	if err := failed.Load(); err != nil {
		return turn{}, *err
	}
	return turn{opsPerS: float64(done.Load()) / time.Since(from).Seconds(), ops: int(ops.Load())}, nil
}
