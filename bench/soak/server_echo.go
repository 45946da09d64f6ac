package main

import (
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// Echoes are the connections of an echo server. The first byte of a connection
// says what it is to do.
type echoes struct {
	pings, stream *idle.Phase
	ledger        *ledger
}

// prepare makes the phases.
func (e *echoes) prepare(phase func(idle.Policy) (*idle.Phase, error)) (err error) {
	if e.pings, err = phase(pingPolicy()); err == nil {
		e.stream, err = phase(streamPolicy())
	}
	return err
}

// serve serves a connection of package net.
func (e *echoes) serve(nc net.Conn) {
	c := nc.(*idlenet.Conn)
	defer c.Close()
	e.ledger.timedOut(c.RemoteAddr(), e.converse(c))
}

func (e *echoes) converse(c *idlenet.Conn) error {
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	switch b[0] {
	case modeStream:
		c.Enter(e.stream)
		return writeStream(c)
	case modeHalf:
		return talk(c)
	case modePing:
		c.Enter(e.pings)
		for err == nil {
			_, err = c.Read(b)
		}
		return err
	}
	for err == nil {
		if _, err = c.Write(b[:n]); err == nil {
			n, err = c.Read(b)
		}
	}
	return err
}

// talk goes on after the client has closed its side.
func talk(c *idlenet.Conn) error {
	var b [1]byte
	c.Read(b[:]) // the end; that it is one is the client's to check
	for range halfWords {
		time.Sleep(halfEvery)
		w := newWord()
		if _, err := c.Write(w[:]); err != nil {
			return err
		}
	}
	return nil
}

// gnetEchoes does the same with gnet.
type gnetEchoes struct {
	gnet.BuiltinEventEngine
	*echoes
	target *target
}

func (e *gnetEchoes) OnBoot(gnet.Engine) gnet.Action {
	if e.prepare(e.target.Gnet.Phase) != nil {
		return gnet.Shutdown
	}
	return gnet.None
}

func (e *gnetEchoes) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	if len(b) == 0 {
		return gnet.None
	}
	mode, known := c.Context().(byte)
	if !known {
		mode = b[0]
		c.SetContext(mode)
		switch mode {
		case modeStream:
			e.target.Gnet.Conn(c).Enter(e.stream)
			c.Write(stream)
		case modePing:
			e.target.Gnet.Conn(c).Enter(e.pings)
		}
	}
	if mode == modeEcho {
		c.Write(b)
	}
	return gnet.None
}

func (e *gnetEchoes) OnClose(c gnet.Conn, err error) gnet.Action {
	e.ledger.timedOut(c.RemoteAddr(), err)
	return gnet.None
}
