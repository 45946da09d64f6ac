package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/frames"
	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A talk is a connection over which a goroutine exchanges messages.
type talk interface {
	net.Conn

	// exchange exchanges messages until answered returns false. It calls answered with the
	// number of answers that are complete, and leaves no answer outstanding.
	exchange(answered func(answers int) (more bool)) error
}

// talkLoad is a load by goroutines, which speak TLS or HTTP/2. With TLS it can cost about
// as much as the server does, so the requests a second say less here than what a request
// has cost the server. The cost is the same whatever the variant.
type talkLoad []talk

// connectTalks opens n connections.
func connectTalks(c *connections, n int) (talkLoad, error) {
	var l talkLoad
	for range n {
		t, err := connectTalk(c)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d: %w", len(l)+1, err)
		}
		l = append(l, t)
	}
	return l, nil
}

func connectTalk(c *connections) (talk, error) {
	nc, err := dial(c.kind, c.address)
	switch {
	case err != nil:
		return nil, err
	case c.kind == server.HTTPS:
		return &tlsTalk{nc, c.request, make([]byte, c.response)}, nil
	}
	return newStreamsTalk(nc, c)
}

func (l talkLoad) close() {
	for _, t := range l {
		t.Close()
	}
}

// once makes requests on one connection after the other.
func (l talkLoad) once() error {
	for _, t := range l {
		t.SetDeadline(time.Now().Add(patience))
		if err := t.exchange(func(int) (more bool) { return false }); err != nil {
			return err
		}
	}
	return nil
}

// run counts how many exchanges were complete between two times, and how many in all: the
// last ones were so later.
func (l talkLoad) run(d time.Duration) (turn, error) {
	from := time.Now().Add(warmUp)
	until := from.Add(d)
	var done, last, ops atomic.Int64
	answered := func(answers int) (more bool) {
		ops.Add(int64(answers))
		switch now := time.Now(); {
		case !now.Before(until):
			last.Add(int64(answers))
			return false
		case !now.Before(from):
			done.Add(int64(answers))
		}
		return true
	}
	failed := make(chan error, len(l))
	for _, t := range l {
		t.SetDeadline(until.Add(patience))
		go func() { failed <- t.exchange(answered) }()
	}
	var err error
	for range l {
		err = cmp.Or(err, <-failed)
	}
	t := turn{opsPerS: float64(done.Load()) / d.Seconds(), ops: int(ops.Load())}
	if done.Load() == 0 { // d was too short for the machine: the exchanges that ended the turn are all that there were
		t.opsPerS = float64(last.Load()) / time.Since(from).Seconds()
	}
	return t, err
}

// tlsTalk speaks HTTP/1 over TLS.
type tlsTalk struct {
	net.Conn
	request, answer []byte
}

func (t *tlsTalk) exchange(answered func(answers int) (more bool)) error {
	for more := true; more; more = answered(1) {
		if _, err := t.Write(t.request); err != nil {
			return err
		}
		if _, err := io.ReadFull(t, t.answer); err != nil {
			return err
		}
	}
	return nil
}

// streams is how many streams of a connection of HTTP/2 have a request in progress.
const streams = 8

// connsOf returns how many connections to a server of a kind have c.conns requests in progress.
func (c *config) connsOf(kind string) int {
	if n := streamsOf(kind); n > 0 {
		return max(c.conns/n, 1)
	}
	return c.conns
}

// streamsOf returns how many streams a connection has, or 0 if it has none.
func streamsOf(kind string) int {
	if kind == server.HTTP2 || kind == server.GRPC {
		return streams
	}
	return 0
}

// streamsTalk speaks HTTP/2. It writes its frames itself, because a client that does more for a
// request than the server does would be what is measured.
type streamsTalk struct {
	net.Conn
	in     *bufio.Reader
	header string // of a request
	flags  byte   // of that
	body   string // of each answer, and of a request of gRPC
	stream uint32 // the next one
	bodies int    // have arrived, of answers that have not ended
}

func newStreamsTalk(nc net.Conn, c *connections) (*streamsTalk, error) {
	t := &streamsTalk{Conn: nc, in: bufio.NewReader(nc), body: c.body, stream: 1}
	t.header, t.flags = frames.Get("/"), frames.EndHeaders|frames.EndStream
	if c.kind == server.GRPC {
		t.header, t.flags = frames.Call(server.EchoMethod), frames.EndHeaders
	}
	_, err := io.WriteString(nc, frames.Hello+frames.New(frames.WindowUpdate, 0, 0, "\x7f\xff\x00\x00")) // the answers never fill that
	if err != nil {
		nc.Close()
	}
	return t, err
}

// ask sends requests, each on a stream of its own.
func (t *streamsTalk) ask(requests int) error {
	var all strings.Builder
	for range requests {
		all.WriteString(frames.New(frames.Headers, t.flags, t.stream, t.header))
		if t.flags&frames.EndStream == 0 {
			all.WriteString(frames.New(frames.Data, frames.EndStream, t.stream, t.body))
		}
		t.stream += 2
	}
	_, err := io.WriteString(t, all.String())
	return err
}

// exchange sends a request for each answer that arrives, so all streams are always in use.
func (t *streamsTalk) exchange(answered func(answers int) (more bool)) error {
	if err := t.ask(streams); err != nil {
		return err
	}
	more := true
	for outstanding, complete := streams, 0; outstanding > 0; {
		end, err := t.read()
		if err != nil {
			return err
		}
		if end {
			complete++
		}
		if complete == 0 || t.in.Buffered() > 0 {
			continue
		}
		if more = answered(complete) && more; !more {
			outstanding -= complete
		} else if err := t.ask(complete); err != nil {
			return err
		}
		complete = 0
	}
	return nil
}

// read reads a frame, and reports whether it ends an answer.
func (t *streamsTalk) read() (end bool, err error) {
	f, err := frames.Read(t.in)
	if err != nil {
		return false, err
	}
	end = (f.Kind == frames.Headers || f.Kind == frames.Data) && f.Flags&frames.EndStream != 0
	const ok = "\x88" // :status 200
	switch {
	case f.Kind == frames.Headers && !end && !strings.HasPrefix(string(f.Payload), ok):
		return false, fmt.Errorf("the header of an answer is %q", f.Payload)
	case f.Kind == frames.Data && string(f.Payload) != t.body:
		return false, fmt.Errorf("the answer is %q", f.Payload)
	case f.Kind == frames.Data:
		t.bodies++
	case f.Kind == frames.Reset || f.Kind == frames.GoAway:
		return false, fmt.Errorf("the server has sent a frame of type %d, with %q", f.Kind, f.Payload)
	case f.Kind == frames.Settings && f.Flags&frames.Ack == 0:
		_, err = io.WriteString(t, frames.New(frames.Settings, frames.Ack, 0, ""))
	case f.Kind == frames.Ping && f.Flags&frames.Ack == 0:
		_, err = io.WriteString(t, frames.New(frames.Ping, frames.Ack, 0, string(f.Payload)))
	}
	if end {
		t.bodies--
	}
	if t.bodies < 0 {
		return false, fmt.Errorf("an answer has no body; its header is %q", f.Payload)
	}
	return end, err
}
