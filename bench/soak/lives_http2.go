package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/frames"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// ask2 asks for a page over HTTP/2, and leaves the answer to be read. The client
// writes its frames itself, so that it knows when it last wrote.
func (c *client) ask2(p *pulse, path string) (begin time.Time, err error) {
	request := ""
	if c.tls == nil {
		c.tls = tls.Client(c.TCPConn, server.ClientTLS("h2"))
		if err := c.tls.Handshake(); err != nil {
			return begin, err
		}
		request = frames.Hello
	}
	c.stream += 2
	request += frames.New(frames.WindowUpdate, 0, 0, "\x00\x00\x01\x00") + // for more than a page
		frames.New(frames.Headers, frames.EndHeaders|frames.EndStream, c.stream-1, frames.Get(path))
	begin = time.Now()
	if _, err = c.tls.Write([]byte(request)); err == nil {
		p.wrote(begin, time.Now())
	}
	return begin, err
}

// page2 gets a page over HTTP/2.
func page2(c *client, p *pulse) error {
	begin, err := c.ask2(p, pathPage)
	if err != nil {
		return err
	}
	c.SetReadDeadline(time.Time{})
	body := ""
	for err == nil {
		var f frames.Frame
		if f, err = frames.Read(c.tls); err != nil {
			return err
		}
		ours := f.Stream == c.stream-1
		switch {
		case f.Kind == frames.Settings && f.Flags&frames.Ack == 0:
			_, err = c.tls.Write([]byte(frames.New(frames.Settings, frames.Ack, 0, "")))
		case f.Kind == frames.GoAway:
			err = errors.New("the server says that it goes away")
		case f.Kind == frames.Headers && f.Payload[0] != 0x88: // 200
			err = fmt.Errorf("the headers of the answer are %q", f.Payload)
		case f.Kind == frames.Data && ours:
			body += string(f.Payload)
		}
		if ours && f.Flags&frames.EndStream != 0 {
			break
		}
	}
	if err == nil && body != pageText {
		err = fmt.Errorf("got %q by HTTP/2", body)
	}
	if err == nil {
		p.heard(begin)
	}
	return err
}

// hang2 asks for what is not answered, and then is silent.
func hang2(_ context.Context, c *client) outcome {
	p := newPulse(limit, c.since.from)
	err := page2(c, p)
	if err != nil {
		return c.cut(p, err)
	}
	begin, err := c.ask2(p, pathHang)
	if o, spoiled := c.spoiled(p, err); spoiled {
		return o
	}
	return c.stale(span{begin, time.Now()}, limit, idle.ReasonIdle)
}
