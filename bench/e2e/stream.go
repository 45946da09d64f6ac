package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/idle"
)

// On Linux ours reads and writes TCP connections by recv and send, in place of the
// read and write of package net (kernel.Stream). noStream is ours without that, to
// show what it gains. It is measured with -stream only.
const noStream = "no-stream"

// netIO is a TCP connection that kernel.Stream does not recognise, as it has a type
// of its own, so package net reads and writes it. All else works as before: Conn
// finds the socket by SyscallConn, and asks the kernel about it. Only copies from
// files and sockets go another way, of which the servers here do none.
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

// streamGain is what kernel.Stream gains and costs: ours compared with noStream.
type streamGain struct {
	OpsRatio     float64         `json:"ops_ratio"`
	OpsRatio95   *stats.Interval `json:"ops_ratio_95,omitempty"`
	CPURatio     float64         `json:"cpu_ratio"`
	CPURatio95   *stats.Interval `json:"cpu_ratio_95,omitempty"`
	BytesPerConn int             `json:"bytes_per_conn"` // of heap; the same for all servers
}

// gainOfStream returns the gain but for BytesPerConn.
func gainOfStream(with, without *contender) *streamGain {
	g := &streamGain{}
	g.OpsRatio, g.OpsRatio95 = ratioOf(with.ops, without.ops)
	g.CPURatio, g.CPURatio95 = ratioOf(with.cpu, without.cpu)
	return g
}

// text is the gain in one sentence.
func (g streamGain) text() string {
	return fmt.Sprintf("kernel.Stream, ours to no-stream: %s times the requests/s, %s times the CPU a request, %d bytes more a connection",
		ratioText(&g.OpsRatio, g.OpsRatio95), ratioText(&g.CPURatio, g.CPURatio95), g.BytesPerConn)
}

// streamBytes returns how many bytes more of heap a connection of ours takes with
// kernel.Stream than without. All else that a connection needs is the same.
func streamBytes() (int, error) {
	var with, without float64
	for range 2 { // the first time is for what packages allocate once
		var err error
		if with, err = heapPerConn(func(ln net.Listener) net.Listener { return ln }); err != nil {
			return 0, err
		}
		if without, err = heapPerConn(func(ln net.Listener) net.Listener { return netIOListener{ln} }); err != nil {
			return 0, err
		}
	}
	return int(math.Round(with - without)), nil
}

// heapPerConn returns how much heap a connection of ours takes, both ends together,
// over a listener that below wraps.
func heapPerConn(below func(net.Listener) net.Listener) (perConn float64, err error) {
	const conns = 200
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	ln, err := idlenet.Wrap(below(bare), idle.Policy{IdleTimeout: noTimeout, ReadTimeout: noTimeout, WriteTimeout: noTimeout}, nil)
	if err != nil {
		return 0, errors.Join(err, bare.Close())
	}
	ends := make([]io.Closer, 0, 2*conns)
	defer func() {
		for _, c := range ends {
			c.Close()
		}
		ln.Close()
	}()
	before := heapInUse()
	for range conns {
		client, err := net.Dial("tcp", bare.Addr().String())
		if err != nil {
			return 0, err
		}
		ends = append(ends, client)
		c, err := ln.Accept()
		if err != nil {
			return 0, err
		}
		ends = append(ends, c)
	}
	return float64(heapInUse()-before) / conns, nil
}

// heapInUse returns how many bytes of the heap are reachable.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what a finalizer kept is gone now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
