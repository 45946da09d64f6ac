package attack

import "github.com/idlewheel/idlewheel/bench/internal/frames"

// A stream of HTTP/2 that has passed a limit is reset. Then the connection has no
// stream, and is cut when the keep-alive wait is over.

// noWindow is what a client says first that takes no response.
const noWindow = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00"

// post2 is the headers of a request for /2. The answer has two bytes.
const post2 = "\x83\x87\x04\x02/2\x41\x09localhost"

var ping2 = frames.New(frames.Ping, 0, 0, "12345678")

// pings pings for as long as it can.
func pings(a *attacker) { a.nag(frames.Hello, a.KeepAlive, a.KeepAlive/5, ping2) }

// closedWindow asks for something, and lets none of it through.
func closedWindow(a *attacker) {
	a.nag(noWindow+frames.New(frames.Headers, frames.EndHeaders|frames.EndStream, 1, frames.Get("/2")), min(a.Write, a.Grace)+a.KeepAlive, a.Write/5, ping2)
}

// headerTrickles2 sends a header in as many frames as it can.
func headerTrickles2(a *attacker) {
	a.nag(frames.Hello+frames.New(frames.Headers, 0, 1, frames.Get("/2")), min(a.Header, a.KeepAlive), a.Header/20, frames.New(frames.Continuation, 0, 1, "\x00\x01x\x01y"))
}

// bodyTrickles2 sends at a tenth of the minimum rate, or somewhat more, a byte to
// a frame.
func bodyTrickles2(a *attacker) {
	begun := a.send(frames.Hello + frames.New(frames.Headers, frames.EndHeaders, 1, post2))
	a.limit(begun, begun.Add(min(a.Body, a.Grace)+a.KeepAlive))
	pause := min(10*pay(1, a.Rate), a.Body/2)
	for n := 1; a.rest(pause); n++ {
		t := a.send(frames.New(frames.Data, 0, 1, "x"))
		if at := begun.Add(a.bodyPays(n)); t.Before(at) { // later ones come after the reset
			a.limit(t, first(t.Add(a.Body), at).Add(a.KeepAlive))
		}
	}
}
