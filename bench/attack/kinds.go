package main

import (
	"fmt"
	"slices"
	"time"
)

// A kind is a kind of attack. Its function returns when there is nothing more to
// do than to hold on; before everything that it does it says by limit when it may
// be cut from there on.
type kind struct {
	name, what string
	attack     func(a *attacker)
	reads      bool // it reads itself, or does not
	raw        bool // it does not get as far as through a handshake
	shakes     bool // it is for servers that speak TLS
	narrow     bool // it has a small receive buffer
	http2      bool // it speaks HTTP/2, and is for servers that do
}

// kinds are the kinds of attack. They are equally frequent.
func kinds() []kind {
	return []kind{
		{name: "connect", what: "connects, and sends nothing", attack: func(*attacker) {}, raw: true},
		{name: "handshake-stops", what: "begins a TLS handshake, where there is one", attack: handshakeStops, raw: true, shakes: true},
		{name: "header-stops", what: "sends half a header", attack: headerStops},
		{name: "header-trickle", what: "sends a header byte by byte, without an end", attack: headerTrickle},
		{name: "body-stops", what: "sends the beginning of a body", attack: bodyStops},
		{name: "body-trickle", what: "sends a body byte by byte", attack: bodyTrickle},
		{name: "reader-stops", what: "asks for a film, and takes none of it", attack: readerStops, reads: true},
		{name: "reader-sips", what: "asks for a film, and takes it too slowly", attack: readerSips, reads: true, narrow: true},
		{name: "keep-alive", what: "makes a request, and never another", attack: idles},
		{name: "brink", what: "acts shortly before each limit, and passes the last", attack: brink},
		{name: "h2-pings", what: "opens no stream of HTTP/2, but pings", attack: pings, http2: true},
		{name: "h2-window", what: "asks by HTTP/2 with a window of 0, and pings", attack: closedWindow, http2: true},
		{name: "h2-body", what: "sends a body by HTTP/2, a byte to a frame", attack: bodyTrickle2, http2: true},
		{name: "h2-header", what: "sends a header by HTTP/2, in frames without an end", attack: headerTrickle2, http2: true},
	}
}

// kindsFor are those that a server can be attacked by.
func kindsFor(cfg config) []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool {
		return k.shakes && !cfg.secure() || k.http2 && !cfg.http2()
	})
}

// handshakeStops sends the header of a record, and of the ClientHello in it.
func handshakeStops(a *attacker) { a.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc") }

func headerStops(a *attacker) { a.limitFirst(a.send("GET / HTTP/1.1\r\nHost: a\r\n")) }

func headerTrickle(a *attacker) {
	a.limitFirst(a.send("G"))
	const rest = "ET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: "
	for i := 0; a.rest(a.header / 20); i++ {
		next := "."
		if i < len(rest) {
			next = rest[i : i+1]
		}
		a.send(next)
	}
}

// post is the header of a request with a body that does not come.
const post = "POST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"

// bodyStart is how much of a body comes.
const bodyStart = 100

func bodyStops(a *attacker) {
	t := a.send(post + fmt.Sprintf("%0*d", bodyStart, 0))
	a.limit(t, t.Add(min(a.body, a.bodyPays(bodyStart))))
}

// bodyTrickle sends a tenth of the least speed, or a little more, as it must not
// pause for too long.
func bodyTrickle(a *attacker) {
	begun := a.send(post)
	a.limit(begun, begun.Add(min(a.body, a.grace)))
	pause := min(10*pay(a.piece, a.rate), a.body/2)
	for n := a.piece; a.rest(pause); n += a.piece {
		t := a.send("x")
		a.limit(t, first(t.Add(a.body), begun.Add(a.bodyPays(n))))
	}
}

func idles(a *attacker) {
	t := a.send("GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	a.limit(t, t.Add(a.keepAlive))
}

// brink does everything as late as it may, and then one thing too late.
func brink(a *attacker) {
	at, limit := a.connected, a.header
	for i, step := range []struct {
		text  string
		limit time.Duration // from there on
	}{
		{"P", a.header},
		{"OST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n", min(a.body, a.grace)},
		{"x", a.keepAlive},
		{"G", a.header},
	} {
		if !a.restUntil(at.Add(limit - margin(limit))) {
			return
		}
		at, limit = a.send(step.text), step.limit
		if i == 0 {
			a.limitFirst(at)
		} else {
			a.limit(at, at.Add(limit))
		}
	}
	if a.restUntil(at.Add(limit - margin(limit))) {
		a.send("ET / HTTP/1.1\r\n") // extends nothing
	}
}

func first(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
