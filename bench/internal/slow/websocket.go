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
	ws := func(name, does string, limit Limit, run func(p *peer) error) Case {
		return unread(Case{Name: "ws-" + name, Protocol: "ws", Does: does, Limit: limit,
			needs: need("ws", func(t *Target) string { return t.WS }),
			run: func(p *peer) error {
				if err := p.upgrade(); err != nil {
					return err
				}
				p.slow()
				return run(p)
			}})
	}
	return []Case{
		beside("ws-pongs", ws("no-pong", "reads, and answers no ping", Ping, func(p *peer) error {
			go p.readAll()
			return nil
		})),
		beside("ws-pongs", small(ws("read-stops", "reads nothing, and answers no ping", Ping, func(p *peer) error { return p.sip(0) }))),
		beside("ws-slow-message", ws("frame-trickle", "sends a frame byte by byte, and answers no ping", Frame, func(p *peer) error {
			go p.readAll()
			p.send("\x82\xfe\x40\x00\x00\x00\x00\x00") // 16 kB, masked with 0
			return p.again("x")
		})),
		control("most WebSockets are silent most of the time", ws("pongs", "answers pings, and sends nothing else for 40 s", "", func(p *peer) error {
			go p.answerPings()
			if !p.rest(p.silence()) {
				return errGone
			}
			return nil
		})),
		control("a phone in a train has such a link", ws("slow-message", "sends a message with 2,000 bytes a second for 20 s", "", func(p *peer) error {
			go p.readAll()
			p.send("\x82\xfe\x9c\x40\x00\x00\x00\x00") // uploads*uploadSize bytes, masked with 0
			return p.upload(p.write)
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
