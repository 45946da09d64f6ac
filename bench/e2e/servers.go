package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A server can be run in each of the variants. To add one, give it a run for
// each, and an exchange: a request, and how long the answer to it is.
type server struct {
	run      map[string]func(net.Listener) error
	exchange func(size int) (request []byte, response int)
}

func servers() map[string]server {
	return map[string]server{
		"net": {
			run: map[string]func(net.Listener) error{
				"bare": func(ln net.Listener) error { return echo(ln, func(net.Conn) {}) },
				"own": func(ln net.Listener) error {
					return echo(ln, func(c net.Conn) { c.SetReadDeadline(time.Now().Add(timeout)) })
				},
				"ours": echoWrapped,
			},
			exchange: func(size int) ([]byte, int) { return bytes.Repeat([]byte{'x'}, size), size },
		},
	}
}

func serverNames() []string {
	var names []string
	for name := range servers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const (
	serveEnv   = "IDLEWHEEL_E2E_SERVE" // tells a child process what to be
	timeout    = time.Minute
	bufferSize = 4096
)

// serve runs one variant of a server, until standard input ends.
func serve(variant string) error {
	name, how, _ := strings.Cut(variant, "/")
	run, ok := servers()[name].run[how]
	if !ok {
		return fmt.Errorf("no server %q", variant)
	}
	if err := pin(serverCore); err != nil {
		return err
	}
	debug.SetGCPercent(400) // the heap is tiny, and collections would hit at random
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	failed := make(chan error, 1)
	go func() { failed <- run(ln) }()
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

// echo is the server of the variants: a goroutine a connection.
func echo(ln net.Listener, beforeRead func(net.Conn)) error {
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

func echoWrapped(ln net.Listener) error {
	tracker, err := idle.New(idle.Policy{IdleTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout}, nil)
	if err != nil {
		return err
	}
	defer tracker.Close()
	return echo(idlenet.NewListener(ln, tracker, nil), func(net.Conn) {})
}
