package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/bench/internal/frames"
	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A load sends requests over many connections, one at a time on each, or one on each stream.
type load interface {
	// run sends requests for the given time, after it has warmed up: as many as the
	// server answers, or at the pace of the load. It leaves no answer outstanding.
	run(d time.Duration) (turn, error)
	close()
}

// warmUp is how long a load runs before exchanges a second are counted. A server
// that was idle until then is up to a third slower for some 10 ms, but hardly so if
// timers kept it awake; that was seen, and not explained.
const warmUp = 20 * time.Millisecond

// A turn is what a load has done, and what that has cost the server.
type turn struct {
	opsPerS  float64       // exchanges a second, after the warm-up
	ops      int           // exchanges in all
	cpu      time.Duration // for these
	switches int           // context switches meanwhile
}

// connect connects the load to a server.
func connect(kind, address string, cfg config) (load, error) {
	c, err := newConnections(kind, address, cfg.size)
	if err != nil {
		return nil, err
	}
	if plain(kind) {
		return connectPlain(c, cfg)
	}
	l, err := connectTalks(c, cfg.connsOf(kind))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// plain reports whether clients of a kind of server write and read bytes that are always the same,
// or of the same length, without TLS.
func plain(kind string) bool {
	return kind != server.HTTPS && kind != server.HTTP2 && kind != server.GRPC
}

// patience is how long an answer may take.
const patience = 30 * time.Second

// connections say how to connect to a server of any kind, and what goes over a connection: a
// request, and answers that all have the same length.
type connections struct {
	kind, address string
	upgrade       []byte // what a WebSocket sends first
	upgraded      int    // bytes of the answer to that
	request       []byte // not of HTTP/2 and gRPC
	response      int
	body          string // of an answer of HTTP/2 or gRPC
}

// newConnections returns no connection yet. Messages of echo servers have size bytes.
func newConnections(kind, address string, size int) (c *connections, err error) {
	message := bytes.Repeat([]byte{'x'}, size)
	c = &connections{kind: kind, address: address, request: message, response: size}
	switch kind {
	case server.HTTP, server.HTTPS, server.Fasthttp:
		c.request = []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		c.response, err = c.get(c.request, http.StatusOK, server.Greeting)
	case server.HTTP2:
		c.body = server.Greeting
	case server.GRPC:
		var b []byte
		b, err = proto.Marshal(wrapperspb.Bytes(message))
		c.body = frames.Message(b)
	case server.WebSocket:
		c.upgrade = []byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n")
		c.request = webSocketFrame(true, message)
		c.response = len(webSocketFrame(false, message))
		c.upgraded, err = c.get(c.upgrade, http.StatusSwitchingProtocols, "")
	}
	if err != nil {
		return nil, fmt.Errorf("the first exchange: %w", err)
	}
	return c, nil
}

// webSocketFrame returns a binary message in one frame. A client's has a mask, which changes
// nothing here.
func webSocketFrame(client bool, message []byte) []byte {
	const final, binaryMessage, masked, longer = 0x80, 2, 0x80, 126
	b := []byte{final | binaryMessage, byte(len(message))}
	if len(message) >= longer {
		b[1] = longer
		b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
	}
	if client {
		b[1] |= masked
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, message...)
}

// get gets an answer of HTTP/1, checks it, and returns its length. All have the same
// because a date has.
func (c *connections) get(request []byte, status int, want string) (length int, err error) {
	nc, err := dial(c.kind, c.address)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := nc.Write(request); err != nil {
		return 0, err
	}
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(nc, &raw))
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode != status || string(body) != want {
		return 0, fmt.Errorf("the answer is %q with status %s", body, res.Status)
	}
	return raw.Len() - in.Buffered(), nil
}

func dial(kind, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	switch kind {
	case server.HTTPS:
		return tls.DialWithDialer(dialer, "tcp", address, server.ClientTLS())
	case server.HTTP2:
		return tls.DialWithDialer(dialer, "tcp", address, server.ClientTLS("h2"))
	}
	return dialer.Dial("tcp", address)
}
