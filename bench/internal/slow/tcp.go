package slow

import (
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"time"
)

func tcpCases() []Case {
	get := need("get", func(t *Target) string { return t.Get })
	tls := func(name, does string, limit Limit, run func(p *peer) error) Case {
		return Case{Name: "tls-" + name, Protocol: "tls", Does: does, Limit: limit, run: run}
	}
	raw := func(c Case) Case { c.raw = true; return c }
	keys := func(c Case) Case { c.keys, c.needs, c.Beside = true, get, "tls-rekeys"; return c }
	halfClose := func(p *peer) error { return p.wire.CloseWrite() }
	return []Case{
		{Name: "tcp-silence", Protocol: "tcp", Does: "connects, and sends nothing", Limit: Handshake, Beside: "h1-preconnect", run: nothing},
		{Name: "tcp-half-close", Protocol: "tcp", Does: "connects, and closes its half without sending a byte", Limit: EndOfInput, Soon: true, run: halfClose},
		raw(beside("tls-slow-hello", tls("hello-stops", "sends half a ClientHello", Handshake, say(halfHello)))),
		raw(beside("tls-slow-hello", tls("hello-trickle", "sends a ClientHello byte by byte", Handshake, func(p *peer) error { return p.trickle(halfHello, "\x00") }))),
		beside("h1-preconnect", tls("silence", "shakes hands, and sends nothing", Header, nothing)),
		beside("h1-slow-header", tls("records", "sends a header in TLS records of one byte", Header, func(p *peer) error { return p.trickle("GET / HTTP/1.1\r\nX: ", "x") })),
		soon(keys(tls("key-updates", "shakes hands, and sends KeyUpdates", Header, (*peer).keyUpdates))),
		unread(soon(keys(tls("idle-key-updates", "makes a request, and sends KeyUpdates instead of another one", KeepAlive, afterAnswer((*peer).keyUpdates))))),
		soon(tls("half-close", "shakes hands, and closes its half of TCP without a close_notify", EndOfInput, halfClose)),

		raw(control("bad links lose packets", Case{Name: "tls-slow-hello", Protocol: "tls", Does: "shakes hands in pieces over 3 s, and makes a request", needs: get, reads: true, run: func(p *peer) error {
			if err := p.shake(Case{}, &inPieces{Conn: p.wire, p: p}); err != nil {
				return err
			}
			p.in.Reset(p.conn)
			p.send(p.get(p.Get))
			return p.mustAnswer("GET")
		}})),
		control("TLS allows it, and some clients do so for each gigabyte", Case{Name: "tls-rekeys", Protocol: "tls", Does: "updates its keys between two requests", needs: get, keys: true, reads: true, run: func(p *peer) error {
			for range 2 {
				p.send(p.get(p.Get))
				if err := p.mustAnswer("GET"); err != nil {
					return err
				}
				if err := p.updateKeys(); err != nil {
					return err
				}
			}
			return nil
		}}),
	}
}

func nothing(*peer) error { return nil }

// beside returns c with the name of its control.
func beside(name string, c Case) Case { c.Beside = name; return c }

// soon returns c as a case that a server may end at once.
func soon(c Case) Case { c.Soon = true; return c }

// unread returns c as a case that reads by itself, if at all.
func unread(c Case) Case { c.reads = true; return c }

// small returns c with a small receive buffer, which it reads by itself.
func small(c Case) Case { c.small = true; return unread(c) }

// control returns c as a control.
func control(reason string, c Case) Case { c.Limit, c.Reason = "", reason; return c }

// halfHello is the beginning of a TLS record with a ClientHello of 512 bytes.
var halfHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 32)

// inPieces is a connection whose first Write takes 3 s.
type inPieces struct {
	net.Conn
	p    *peer
	done bool
}

func (c *inPieces) Write(b []byte) (int, error) {
	if c.done {
		return c.Conn.Write(b)
	}
	c.done = true
	return c.p.inPieces(c.Conn, b)
}

// inPieces writes b in four pieces within 3 s.
func (p *peer) inPieces(w interface{ Write([]byte) (int, error) }, b []byte) (n int, err error) {
	for part := range 4 {
		from, to := part*len(b)/4, (part+1)*len(b)/4
		if part > 0 && !p.rest(time.Second) {
			return from, errGone
		}
		if _, err := w.Write(b[from:to]); err != nil {
			return from, err
		}
	}
	return len(b), nil
}

func mqttCases() []Case {
	mqtt := func(name, does string, limit Limit, run func(p *peer) error) Case {
		return Case{Name: "mqtt-" + name, Protocol: "mqtt", Does: does, Limit: limit, run: run}
	}
	return []Case{
		beside("mqtt-slow-connect", mqtt("connect-stops", "sends half a CONNECT", Connect, say(connect[:5]))),
		beside("mqtt-slow-connect", mqtt("connect-trickle", "sends a CONNECT with a long name byte by byte", Connect, func(p *peer) error { return p.trickle(longConnect, "x") })),
		beside("mqtt-pings", mqtt("no-ping", "promises a packet every 5 s, and sends none", ClientsPing, say(connect))),
		beside("mqtt-pings", mqtt("packet-stops", "connects, and sends half a PUBLISH", ClientsPing, say(connect+"\x30\x20\x00\x01a"))),
		control("bad links lose packets", mqtt("slow-connect", "sends its CONNECT in pieces over 3 s, and then pings", "", func(p *peer) error {
			if _, err := p.inPieces(p.conn, []byte(connect)); err != nil {
				return err
			}
			return p.steadily(3, 2*time.Second, func() { p.send(pingReq) })
		})),
		control("it does what it has promised", mqtt("pings", "connects, and pings every 2 s", "", func(p *peer) error {
			p.send(connect)
			return p.steadily(10, 2*time.Second, func() { p.send(pingReq) })
		})),
	}
}

// connect is a CONNECT of MQTT 3.1.1 with a keep alive of 5 s.
var connect = "\x10\x14\x00\x04MQTT\x04\x02\x00\x05\x00\x08" + fmt.Sprintf("%08x", rand.Text()[:4])

// longConnect is the beginning of one with a name of 60,000 bytes.
const longConnect = "\x10\xec\xd4\x03\x00\x04MQTT\x04\x02\x00\x05\xea\x60"

const pingReq = "\xc0\x00"

// steadily does something every so often, and fails if the server ends the connection.
func (p *peer) steadily(times int, every time.Duration, do func()) error {
	for range times {
		do()
		if !p.rest(every) {
			return errGone
		}
	}
	return nil
}
