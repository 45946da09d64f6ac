//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// An order tells a child which server to be.
type order struct {
	Core          int
	Kind, Variant string
	Limit         time.Duration // of silence, and all others that are set
}

// noTimeout is a limit that no connection of a load passes. With 10 messages per second
// over 3,000 connections, one of them is silent for half of it.
const noTimeout = 10 * time.Minute

// config returns the configuration of the server that is ordered. In our variant, echo servers
// have the limits that are set here. HTTP servers have their adapter's defaults, except for
// KeepAliveTimeout.
func (o order) config() server.Config {
	c := server.Config{Kind: o.Kind, Variant: o.Variant, Own: o.Limit, Timeouts: httplimits.Timeouts{KeepAliveTimeout: o.Limit}}
	c.Policy = idle.Policy{IdleTimeout: o.Limit, ReadTimeout: o.Limit, WriteTimeout: o.Limit}
	if o.Kind == server.Gnet { // all limits that there are
		c.Policy.MaxAge = 60 * o.Limit
		c.Policy.Heartbeat = idle.Heartbeat{Interval: o.Limit, Timeout: o.Limit}
		c.Policy.MinReadRate = idle.Rate{BytesPerSecond: 1, Grace: o.Limit}
		c.Policy.MinWriteRate = c.Policy.MinReadRate
	}
	return c
}

// serve is what a child does: it runs a server until its parent is gone, tells its address, and answers
// each question with how much memory it uses.
func serve(parent *child.Parent) error {
	var ord order
	if err := parent.Hear(&ord); err != nil {
		return err
	}
	if err := pin(ord.Core); err != nil {
		return err
	}
	debug.SetGCPercent(400) // the heap is tiny, and collections would hit at random
	s, err := server.Start(ord.config())
	if err != nil {
		return err
	}
	for err = parent.Tell(s.Address); err == nil && parent.Hear(new(any)) == nil; {
		err = parent.Tell(memoryInUse())
	}
	return err
}

// memoryInUse returns how many bytes this process uses: all that the runtime has, except
// for what is free or was given back. Garbage is collected before.
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

// A proc is a server in a process of its own.
type proc struct {
	*child.Child
	address string
}

// start starts a variant on the core of the servers.
func (b *bench) start(variant string, limit time.Duration) (*proc, error) {
	c, err := child.Start("server", order{b.core, b.kind, variant, limit}, os.Stderr)
	if err != nil {
		return nil, err
	}
	p := &proc{Child: c}
	if err := c.Hear(&p.address); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return p, nil
}

// memory asks how many bytes the server uses.
func (p *proc) memory() (bytes uint64, err error) {
	if err := p.Tell("?"); err != nil {
		return 0, fmt.Errorf("the server has ended: %w", err)
	}
	err = p.Hear(&bytes)
	return bytes, err
}

// twoCores returns a core for servers and one for the load, or one for both if this process may
// use only one.
func twoCores() (servers, load int, err error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return 0, 0, err
	}
	var cores []int
	for core := 0; len(cores) < min(may.Count(), 2); core++ {
		if may.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores[0], cores[len(cores)-1], nil
}

// pin keeps this process on a core.
func pin(core int) error {
	runtime.GOMAXPROCS(1)
	var set unix.CPUSet
	set.Set(core)
	threads, err := os.ReadDir("/proc/self/task") // later ones inherit
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return err
}
