package main

import (
	"encoding/binary"
	"time"
)

// Attacks by HTTP/2. A stream that has passed a limit is reset, and then the
// connection has no stream, and is cut when the keep-alive wait is over.

// Types of frames, and flags of theirs.
const (
	frameData, frameHeaders, frameSettings, framePing, frameContinuation = 0, 1, 4, 6, 9

	endStream, endHeaders = 1, 4
)

// frame2 is a frame of HTTP/2 with a short payload.
func frame2(kind, flags byte, stream uint32, payload string) string {
	b := []byte{0, 0, byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(b, stream)) + payload
}

// hello2 is what a client says first; with a window of 0 it takes no response.
const (
	hello2   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	noWindow = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00"
)

// The headers of requests for /2, by which the answer is two bytes.
const (
	get2  = "\x82\x87\x04\x02/2\x41\x09localhost"
	post2 = "\x83\x87\x04\x02/2\x41\x09localhost"
)

var ping2 = frame2(framePing, 0, 0, "12345678")

// pings pings for as long as it can.
func pings(a *attacker) {
	t := a.send(hello2)
	a.limit(t, t.Add(a.keepAlive))
	for a.rest(a.keepAlive / 5) {
		a.send(ping2)
	}
}

// closedWindow asks for something, and lets none of it through.
func closedWindow(a *attacker) {
	t := a.send(noWindow + frame2(frameHeaders, endHeaders|endStream, 1, get2))
	a.limit(t, t.Add(min(a.write, a.grace)+a.keepAlive))
	for a.rest(a.write / 5) {
		a.send(ping2)
	}
}

// bodyTrickle2 sends a body at a tenth of the least speed, or a little more, a byte
// to a frame.
func bodyTrickle2(a *attacker) {
	begun := a.send(hello2 + frame2(frameHeaders, endHeaders, 1, post2))
	a.limit(begun, begun.Add(min(a.body, a.grace)+a.keepAlive))
	pause := min(10*pay(1, a.rate), a.body/2)
	for n := 1; a.rest(pause); n++ {
		t := a.send(frame2(frameData, 0, 1, "x"))
		if at := begun.Add(a.bodyPays(n)); t.Before(at) { // later ones come after the reset
			a.limit(t, first(t.Add(a.body), at).Add(a.keepAlive))
		}
	}
}

// headerTrickle2 sends a header in as many frames as it can.
func headerTrickle2(a *attacker) {
	t := a.send(hello2 + frame2(frameHeaders, 0, 1, get2))
	a.limit(t, t.Add(min(a.header, a.keepAlive)))
	for a.rest(a.header / 20) {
		a.send(frame2(frameContinuation, 0, 1, "\x00\x01x\x01y"))
	}
}

// longest2 is how long it takes until the last of these attackers is cut.
func (l *limits) longest2() time.Duration {
	return max(l.write, 2*l.bodyPays(1)) + l.keepAlive
}
