package slow

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// pause is how long a client that trickles waits between two bytes.
const pause = time.Second

func tcpCases() []Case {
	return []Case{
		{Name: "tcp-silence", Protocol: "tcp", Does: "connects, and sends nothing",
			Limit: "of a handshake, or of the first byte", run: nothing},
		{Name: "tcp-half-close", Protocol: "tcp", Does: "connects, and closes its half without a byte",
			Limit: "the end of the input", run: func(p *peer) error { return p.wire.CloseWrite() }},
		{Name: "tls-hello-stops", Protocol: "tls", Does: "sends half a ClientHello",
			Limit: "of a handshake", run: func(p *peer) error { p.send(halfHello); return nil }},
		{Name: "tls-hello-trickle", Protocol: "tls", Does: "sends a ClientHello byte by byte",
			Limit: "of a handshake", run: func(p *peer) error { return p.trickle(halfHello, pause, "\x00") }},
		{Name: "tls-silence", Protocol: "tls", Does: "shakes hands, and sends nothing",
			Limit: "of the first header", run: nothing},
		{Name: "tls-records", Protocol: "tls", Does: "sends a header in TLS records of one byte",
			Limit: "of a header", run: func(p *peer) error { return p.trickle("GET / HTTP/1.1\r\nX: ", pause, "x") }},
		{Name: "tls-half-close", Protocol: "tls", Does: "shakes hands, and closes its half of TCP without a close_notify",
			Limit: "the end of the input", run: func(p *peer) error { return p.wire.CloseWrite() }},
	}
}

func nothing(*peer) error { return nil }

// halfHello is the beginning of a TLS record with a ClientHello of 512 bytes.
var halfHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 32)

func mqttCases() []Case {
	return []Case{
		{Name: "mqtt-connect-stops", Protocol: "mqtt", Does: "sends half a CONNECT", Limit: "of the CONNECT",
			run: func(p *peer) error { p.send(connect[:5]); return nil }},
		{Name: "mqtt-connect-trickle", Protocol: "mqtt", Does: "sends a CONNECT byte by byte, with a long name",
			Limit: "of the CONNECT", run: func(p *peer) error { return p.trickle(longConnect, pause, "x") }},
		{Name: "mqtt-no-ping", Protocol: "mqtt", Does: "promises a packet every 5 s, and sends none",
			Limit: "one and a half times the keep alive (MQTT 3.1.1, 3.1.2.10)", run: func(p *peer) error { p.send(connect); return nil }},
		{Name: "mqtt-packet-stops", Protocol: "mqtt", Does: "connects, and sends half a PUBLISH",
			Limit: "the keep alive, or of a packet", run: func(p *peer) error { p.send(connect + "\x30\x20\x00\x01a"); return nil }},
		{Name: "mqtt-pings", Protocol: "mqtt", Control: true, Does: "connects, and pings every 2 s", Limit: "it does as it has promised",
			run: func(p *peer) error {
				p.send(connect)
				return p.control(10, 2*time.Second, func() { p.send("\xc0\x00") })
			}},
	}
}

// connect is a CONNECT of MQTT 3.1.1 with a keep alive of 5 s.
var connect = "\x10\x14\x00\x04MQTT\x04\x02\x00\x05\x00\x08" + fmt.Sprintf("%08x", rand.Text()[:4])

// longConnect is the beginning of one with a name of 60,000 bytes.
const longConnect = "\x10\xec\xd4\x03\x00\x04MQTT\x04\x02\x00\x05\xea\x60"

// control does something every so often, and fails if the server ends the connection.
func (p *peer) control(times int, every time.Duration, do func()) error {
	for range times {
		if !p.rest(every) {
			return errGone
		}
		do()
	}
	if !p.rest(every) {
		return errGone
	}
	return nil
}
