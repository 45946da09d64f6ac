package slow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

func webSocketCases() []Case {
	ws := func(name, does, limit string, run func(p *peer) error) Case {
		return Case{Name: "ws-" + name, Protocol: "ws", Does: does, Limit: limit, reads: true,
			needs: need("ws", func(t *Target) string { return t.WS }),
			run: func(p *peer) error {
				if err := p.upgrade(); err != nil {
					return err
				}
				p.slow()
				return run(p)
			}}
	}
	honest := func(c Case) Case { c.Control = true; return c }
	small := func(c Case) Case { c.small = true; return c }
	return []Case{
		ws("no-pong", "reads, and answers no ping", "an unanswered ping, or of silence", func(p *peer) error {
			go p.readAll()
			return nil
		}),
		small(ws("read-stops", "reads nothing, and answers no ping", "an unanswered ping, or of silence", func(p *peer) error { return p.sip(0) })),
		ws("frame-trickle", "sends a frame byte by byte, and answers no ping", "an unanswered ping, or of a frame", func(p *peer) error {
			go p.readAll()
			p.send("\x82\xfe\x40\x00\x00\x00\x00\x00") // 16 kB, masked by 0
			return p.again("x", pause)
		}),
		honest(ws("pongs", "answers pings, and says nothing else for 30 s", "most WebSockets are silent for most of the time", func(p *peer) error {
			go p.answerPings()
			if !p.rest(min(30*time.Second, p.GiveUp*3/4)) {
				return errGone
			}
			return nil
		})),
	}
}

// upgrade asks for a WebSocket.
func (p *peer) upgrade() error {
	p.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", p.WS, p.Host))
	p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	defer p.conn.SetReadDeadline(time.Time{})
	resp, err := http.ReadResponse(p.in, &http.Request{Method: "GET"})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the server does not upgrade: %s", resp.Status)
	}
	return nil
}

// answerPings reads frames, and answers pings.
func (p *peer) answerPings() {
	for {
		op, payload, err := readWSFrame(p.in)
		switch {
		case err != nil:
			p.end(endOf(err))
			return
		case op == 8:
			p.end("close frame")
			return
		case op == 9:
			p.conn.Write(slices.Concat([]byte{0x8a, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload)) // a pong, masked by 0
		}
	}
}

// readWSFrame reads a frame of a server, which is not masked.
func readWSFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err = io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	op = head[0] & 0x0f
	n := int(head[1] & 0x7f)
	if n == 127 {
		return 0, nil, errors.New("a frame of more than 64 kB")
	}
	if n == 126 {
		if _, err = io.ReadFull(r, head); err != nil {
			return 0, nil, err
		}
		n = int(head[0])<<8 | int(head[1])
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return op, payload, err
}
