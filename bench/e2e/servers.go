package main

import (
	"net"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// An order tells a child which server to be.
type order struct {
	Kind, Variant string
	Limit         time.Duration // of silence, and all others that are set
}

// noTimeout is a limit that no connection of a load passes. With 10 messages a second
// over 3,000 connections, one of them is silent for half of it.
const noTimeout = 10 * time.Minute

// config returns the server that is ordered. With ours, echo servers have the limits
// that are set here, and HTTP servers those that their adapters have by default, but
// for the silence between two requests.
func (o order) config() (server.Config, error) {
	c := server.Config{Kind: o.Kind, Variant: o.Variant, Own: o.Limit, Timeouts: httplimits.Timeouts{KeepAliveTimeout: o.Limit}}
	if o.Variant == noStream {
		ln, err := server.Listen()
		if err != nil {
			return c, err
		}
		c.Variant, c.Listener = server.Ours, netIOListener{ln}
	}
	c.Policy = idle.Policy{IdleTimeout: o.Limit, ReadTimeout: o.Limit, WriteTimeout: o.Limit}
	if o.Kind == server.Gnet {
		c.Policy.MaxAge = 60 * o.Limit
		c.Policy.Heartbeat = idle.Heartbeat{Interval: o.Limit, Timeout: o.Limit}
		c.Policy.MinReadRate = idle.Rate{BytesPerSecond: 1, Grace: o.Limit}
		c.Policy.MinWriteRate = idle.Rate{BytesPerSecond: 1, Grace: o.Limit}
		c.Gnet = &idlegnet.Options{Ping: func(c gnet.Conn) error { _, err := c.Write([]byte("ping")); return err }}
	}
	return c, nil
}

// serve is what a child does: it runs a server, tells its address, and answers each
// question by how much memory it takes.
func serve(parent *child.Parent) error {
	var ord order
	if err := parent.Hear(&ord); err != nil {
		return err
	}
	debug.SetGCPercent(400) // the heap is tiny, and collections would hit at random
	c, err := ord.config()
	if err != nil {
		return err
	}
	s, err := server.New(c)
	if err != nil {
		return err
	}
	return s.Serve(parent, func() any { return memoryInUse() })
}

// memoryInUse returns how many bytes this process uses: all that the runtime has
// but for what is free or was given back. Garbage is collected before.
func memoryInUse() (sum uint64) {
	runtime.GC()
	runtime.GC() // the first leaves what a finalizer has yet to free
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/metadata/mcache/inuse:bytes"}, {Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"}, {Name: "/memory/classes/other:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return sum
}

// start starts a server process on a core. Its answer is how many bytes it uses.
func start(ord order, core int) (*server.Child, error) {
	return server.StartChild("server", ord, child.Options{Pinned: true, Core: core})
}

// On Linux ours reads and writes TCP connections by recv and send, in place of the
// read and write of package net (kernel.Stream). noStream is ours without that, to
// show what it gains. It is measured with -stream only.
const noStream = "no-stream"

// netIO is a TCP connection that kernel.Stream does not recognise, as it has a type
// of its own, so package net reads and writes it. All else works as before: Conn
// finds the socket by SyscallConn, and asks the kernel about it. Only copies from
// files and sockets go another way. The servers here send none.
//
// It is a struct of one pointer, which an interface holds without an allocation.
type netIO struct{ *net.TCPConn }

// netIOListener accepts such connections.
type netIOListener struct{ net.Listener }

func (l netIOListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return netIO{c.(*net.TCPConn)}, nil
}
