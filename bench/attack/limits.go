package main

import (
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// limits are what clients are held to.
type limits struct {
	header    time.Duration // of the handshake as well
	body      time.Duration
	write     time.Duration
	keepAlive time.Duration
	rate      int // of bodies
	writeRate int // of responses
	grace     time.Duration
}

func (l *limits) fasthttpTimeouts() idlefasthttp.Timeouts {
	return idlefasthttp.Timeouts{
		HandshakeTimeout: l.header, HeaderTimeout: l.header,
		BodyTimeout: l.body, BodyRate: idle.Rate{BytesPerSecond: l.rate, Grace: l.grace},
		WriteTimeout: l.write, WriteRate: idle.Rate{BytesPerSecond: l.writeRate, Grace: l.grace},
		KeepAliveTimeout: l.keepAlive,
	}
}

func (l *limits) httpTimeouts() idlehttp.Timeouts {
	return idlehttp.Timeouts{
		HandshakeTimeout: l.header, HeaderTimeout: l.header,
		BodyTimeout: l.body, BodyRate: idle.Rate{BytesPerSecond: l.rate, Grace: l.grace},
		WriteTimeout: l.write, WriteRate: idle.Rate{BytesPerSecond: l.writeRate, Grace: l.grace},
		KeepAliveTimeout: l.keepAlive,
	}
}

// setFasthttp sets the server's own timeouts. They know no speeds, and
// ReadTimeout is for a whole request.
func (l *limits) setFasthttp(s *fasthttp.Server) {
	s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = max(l.header, l.body), l.write, l.keepAlive
}

// setHTTP sets the server's own timeouts, likewise.
func (l *limits) setHTTP(s *http.Server) {
	s.ReadHeaderTimeout = l.header
	s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = max(l.header, l.body), l.write, l.keepAlive
}

// bodyPays returns for how long n bytes of a body pay at its least speed, the
// grace included.
func (l *limits) bodyPays(n int) time.Duration { return l.grace + pay(n, l.rate) }

// responsePays returns the same of a response.
func (l *limits) responsePays(n int) time.Duration { return l.grace + pay(n, l.writeRate) }

func pay(n, rate int) time.Duration { return time.Duration(n) * time.Second / time.Duration(rate) }

// piece is how many bytes a body trickles by, as the server sees it.
func (c *config) piece() int {
	if c.secure() {
		return 1 + tlsOverhead
	}
	return 1
}

// slowestRate is the least rate that a body can trickle under, at half of it,
// without ever pausing for too long.
func (c *config) slowestRate() int {
	return max(10, int(4*float64(c.piece())/c.body.Seconds())+1)
}

// margin is how long before a limit the attackers act that play with it. It
// leaves time for a machine that is busy.
func margin(limit time.Duration) time.Duration { return limit / 5 }

// longest is how long the attacks take that take longest, until they are cut.
func (l *limits) longest() time.Duration {
	played := 2*l.header + l.body + l.keepAlive
	brink := played - margin(played) + l.header
	sip := 2 * l.responsePays(2048)      // it takes half the speed, and a first window pays in advance
	trickle := 2 * l.bodyPays(bodyStart) // it has half the speed at the most
	return max(brink, sip, trickle, l.longest2())
}
