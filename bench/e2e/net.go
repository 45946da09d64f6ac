package main

import (
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// netServer is an echo server over net.Conn, a goroutine a connection.
func netServer() server {
	return server{
		run: map[string]func(func(string)) error{
			"bare": func(ready func(string)) error {
				return echo(ready, bare, func(net.Conn) {})
			},
			"own": func(ready func(string)) error {
				return echo(ready, bare, func(c net.Conn) { c.SetReadDeadline(time.Now().Add(timeout)) })
			},
			us: func(ready func(string)) error { return echo(ready, wrapped, func(net.Conn) {}) },
			noStream: func(ready func(string)) error {
				return echo(ready, func(ln net.Listener) (net.Listener, error) { return wrapped(netIOListener{ln}) }, func(net.Conn) {})
			},
		},
		exchange: echoExchange(),
	}
}

func bare(ln net.Listener) (net.Listener, error) { return ln, nil }

func wrapped(ln net.Listener) (net.Listener, error) {
	return idlenet.Wrap(ln, idle.Policy{IdleTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout}, nil)
}

func echo(ready func(string), wrap func(net.Listener) (net.Listener, error), beforeRead func(net.Conn)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if ln, err = wrap(ln); err != nil {
		return err
	}
	defer ln.Close()
	ready(ln.Addr().String())
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			b := make([]byte, bufferSize)
			for {
				beforeRead(c)
				n, err := c.Read(b)
				if err != nil {
					return
				}
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		}()
	}
}
