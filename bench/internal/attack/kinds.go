package attack

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// A kind is a kind of attack. Its function returns when nothing is left to do but
// to hold on. Whatever it does, it notes by limit when it may be cut from then on.
type kind struct {
	name, what string
	attack     func(a *attacker)
	reads      bool     // it reads itself, or does not read at all
	raw        bool     // it does not get through a handshake
	tls        bool     // it is for servers that speak TLS
	narrow     bool     // it has a small receive buffer
	protocols  []string // it speaks HTTP/2, and is for servers that do
}

// kinds are the kinds of attack. They are equally frequent.
func kinds() []kind {
	h2 := []string{"h2"}
	return []kind{
		{name: "connect", what: "connects, and sends nothing", attack: func(*attacker) {}, raw: true},
		{name: "handshake-stops", what: "begins a TLS handshake, where there is one", attack: handshakeStops, raw: true, tls: true},
		{name: "header-stops", what: "sends half a header", attack: headerStops},
		{name: "header-trickle", what: "sends a header byte by byte, without an end", attack: headerTrickles},
		{name: "body-stops", what: "sends the beginning of a body", attack: bodyStops},
		{name: "body-trickle", what: "sends a body byte by byte", attack: bodyTrickles},
		{name: "reader-stops", what: "asks for a film, and takes none of it", attack: readerStops, reads: true},
		{name: "reader-sips", what: "asks for a film, and takes it too slowly", attack: readerSips, reads: true, narrow: true},
		{name: "keep-alive", what: "makes a request, and never another", attack: idles},
		{name: "brink", what: "acts shortly before each limit, and passes the last", attack: brink},
		{name: "h2-pings", what: "opens no stream of HTTP/2, but pings", attack: pings, protocols: h2},
		{name: "h2-window", what: "asks by HTTP/2 with a window of 0, and pings", attack: closedWindow, protocols: h2},
		{name: "h2-body", what: "sends a body by HTTP/2, a byte to a frame", attack: bodyTrickles2, protocols: h2},
		{name: "h2-header", what: "sends a header by HTTP/2, in frames without an end", attack: headerTrickles2, protocols: h2},
	}
}

// Kinds tells what the attackers of Run do, as pairs of a name and a phrase.
func Kinds() (all [][2]string) {
	for _, k := range kinds() {
		all = append(all, [2]string{k.name, k.what})
	}
	return all
}

// kinds are those by which the server can be attacked.
func (c *Config) kinds() []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool { return k.tls && !c.secure() || k.protocols != nil && !c.http2() })
}

func getRequest(size int) string {
	return fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", size)
}

// postRequest returns a request without its body, which has so many bytes. The
// answer has two.
func postRequest(size int) string {
	return fmt.Sprintf("POST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
}

// handshakeStops sends the header of a record, and of the ClientHello in it.
func handshakeStops(a *attacker) { a.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc") }

func headerStops(a *attacker) { a.limitHeader(a.send("GET / HTTP/1.1\r\nHost: a\r\n")) }

func headerTrickles(a *attacker) {
	a.limitHeader(a.send("G"))
	const rest = "ET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: "
	for i := 0; a.rest(a.Header / 20); i++ {
		a.send((rest + ".")[min(i, len(rest)):][:1])
	}
}

// A body that does not end has so many bytes, and so many of them come at once if
// it stops.
const bodySize, bodyStart = 1_000_000, 100

func bodyStops(a *attacker) {
	t := a.send(postRequest(bodySize) + fmt.Sprintf("%0*d", bodyStart, 0))
	a.limit(t, t.Add(min(a.Body, a.bodyPays(bodyStart))))
}

// bodyTrickles sends at a tenth of the minimum rate, or somewhat more, as it must
// not pause for too long.
func bodyTrickles(a *attacker) {
	begun := a.send(postRequest(bodySize))
	a.limit(begun, begun.Add(min(a.Body, a.Grace)))
	pause := min(10*pay(a.piece(), a.Rate), a.Body/2)
	for n := a.piece(); a.rest(pause); n += a.piece() {
		t := a.send("x")
		a.limit(t, first(t.Add(a.Body), begun.Add(a.bodyPays(n))))
	}
}

func idles(a *attacker) {
	t := a.send(getRequest(2))
	a.limit(t, t.Add(a.KeepAlive))
}

// brink does everything as late as it may, and then one thing too late.
func brink(a *attacker) {
	at, limit := a.connected, a.Header
	for i, step := range []struct {
		text  string
		limit time.Duration // from there on
	}{
		{"P", a.Header},
		{postRequest(1)[1:], min(a.Body, a.Grace)},
		{"x", a.KeepAlive},
		{"G", a.Header},
	} {
		if !a.rest(time.Until(at.Add(limit - margin(limit)))) {
			return
		}
		at, limit = a.send(step.text), step.limit
		if i == 0 {
			a.limitHeader(at)
		} else {
			a.limit(at, at.Add(limit))
		}
	}
	if a.rest(time.Until(at.Add(limit - margin(limit)))) {
		a.send("ET / HTTP/1.1\r\n") // extends nothing
	}
}

// readerStops does not read. The kernel takes what its buffer holds.
func readerStops(a *attacker) { a.watchFilm(0) }

// readerSips takes half of what it has to. Its receive buffer is small, as the
// server sees what that takes: a large one would pay for minutes.
func readerSips(a *attacker) { a.watchFilm(max(1, int(sip*time.Duration(a.WriteRate)/2/time.Second))) }

const sip = 50 * time.Millisecond

// watchFilm asks for a film, and takes so many bytes of it each time.
func (a *attacker) watchFilm(bytes int) {
	before, _ := look(a.wire) // a handshake
	begun := a.send(getRequest(len(film)))
	a.limit(begun, begun.Add(min(a.Write, a.Grace)))
	looked, progress, received := begun, begun, before.received
	b := make([]byte, bytes)
	for a.rest(sip) {
		now := time.Now()
		f, err := look(a.wire)
		if err != nil || !f.established {
			a.cut(now)
			return
		}
		if f.received > received { // at the last look at the earliest
			progress, received = looked, f.received
		}
		looked = now
		a.limit(now, first(progress.Add(a.Write), begun.Add(a.responsePays(received-before.received))))
		if bytes == 0 {
			continue
		}
		a.wire.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := a.wire.Read(b); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			a.cut(time.Now())
			return
		}
	}
}

// A flow is what the kernel knows of a connection.
type flow struct {
	established bool
	received    int // bytes that the peer knows to have arrived
}

func first(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
