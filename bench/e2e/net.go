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
				return echo(ready, func(ln net.Listener) net.Listener { return ln }, func(net.Conn) {})
			},
			"own": func(ready func(string)) error {
				return echo(ready, func(ln net.Listener) net.Listener { return ln },
					func(c net.Conn) { c.SetReadDeadline(time.Now().Add(timeout)) })
			},
			"ours": echoWrapped,
		},
		exchange: echoExchange(),
	}
}

func echo(ready func(string), wrap func(net.Listener) net.Listener, beforeRead func(net.Conn)) error {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(bare.Addr().String())
	ln := wrap(bare)
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

func echoWrapped(ready func(string)) error {
	tracker, err := idle.New(idle.Policy{IdleTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout}, nil)
	if err != nil {
		return err
	}
	defer tracker.Close()
	return echo(ready, func(ln net.Listener) net.Listener { return idlenet.NewListener(ln, tracker, nil) }, func(net.Conn) {})
}
