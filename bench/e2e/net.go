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
				return echo(ready, asItIs, func(net.Conn) {})
			},
			"own": func(ready func(string)) error {
				return echo(ready, asItIs, func(c net.Conn) { c.SetReadDeadline(time.Now().Add(timeout)) })
			},
			us:       echoOurs(func(ln net.Listener) net.Listener { return ln }),
			noStream: echoOurs(func(ln net.Listener) net.Listener { return netIOListener{ln} }),
		},
		exchange: echoExchange(),
	}
}

func asItIs(ln net.Listener) (net.Listener, error) { return ln, nil }

func echo(ready func(string), wrap func(net.Listener) (net.Listener, error), beforeRead func(net.Conn)) error {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(bare.Addr().String())
	ln, err := wrap(bare)
	if err != nil {
		return err
	}
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

// echoOurs is ours over a listener that below wraps.
func echoOurs(below func(net.Listener) net.Listener) func(ready func(string)) error {
	return func(ready func(string)) error {
		return echo(ready, func(ln net.Listener) (net.Listener, error) {
			_, wrapped, err := wrapNet(below(ln))
			return wrapped, err
		}, func(net.Conn) {})
	}
}

// wrapNet gives the connections of ln our timeouts. Closing the tracker is left to
// the caller.
func wrapNet(ln net.Listener) (*idle.Tracker, net.Listener, error) {
	tracker, err := idle.New(idle.Policy{IdleTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout}, nil)
	if err != nil {
		return nil, nil, err
	}
	return tracker, idlenet.NewListener(ln, tracker, nil), nil
}
