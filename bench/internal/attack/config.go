// Package attack sets hostile clients on servers, each of which runs in a
// process of its own.
//
// Run holds thousands of connections by the cases of package slow while honest
// clients make requests, and judges when the server cuts them. Cost sends as much
// as it can, and measures what CPU time that takes with timeouts and without.
package attack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// A Config says how Run attacks.
type Config struct {
	Server    string // one of Servers
	Attackers int    // a connection each
	Honest    int    // clients, a connection each; a tenth as many slow ones come on top
	Duration  time.Duration
	Every     time.Duration // between two requests of an honest client
	Patience  time.Duration // of honest clients
	Late      time.Duration // by which the cut of an attacker may be late
	Capacity  time.Duration // the grace of a Capacity, if this is a Flood; else 0
	Limits
}

// Limits are what a server holds its clients to.
type Limits struct {
	Header    time.Duration // of handshakes as well
	Body      time.Duration // without a byte of a body
	Rate      int           // bytes a second of a body
	Write     time.Duration // without a byte of a response
	WriteRate int           // bytes a second of a response
	Grace     time.Duration // before the rates count
	KeepAlive time.Duration
}

// Servers returns the servers that Run can attack. Flood can attack server.Net too.
func Servers() []string { return []string{"http", "https", "fasthttp"} }

const (
	maxClients = 50_000
	maxRate    = 1 << 20
	minLimit   = 100 * time.Millisecond // less is lost in what a busy machine does
)

// Validate returns an error that names the flag and its value if c cannot be run.
func (c *Config) Validate() error {
	if c.Capacity > 0 {
		return cmp.Or(
			c.oneOf(append(Servers(), server.Net)),
			program.Within("attackers", c.Attackers, 4*sources, maxClients, " with -capacity"),
			program.Within("honest", c.Honest, 1, maxClients, ""),
			program.Within("capacity", c.Capacity, minLimit, time.Minute, ""),
			program.Within("patience", c.Patience, minLimit, time.Hour, ""),
			program.Within("every", c.Every, time.Millisecond, time.Minute, ""),
			program.Within("duration", c.Duration, 4*c.Capacity, time.Hour, ", so that attackers pass -capacity"),
		)
	}
	pauses := float64(time.Second) / float64(max(c.pause(), time.Millisecond)) // a second
	return cmp.Or(
		c.oneOf(Servers()),
		program.Within("attackers", c.Attackers, 1, maxClients, ""),
		program.Within("honest", c.Honest, 1, maxClients, ""),
		program.Within("header", c.Header, minLimit, time.Hour, ""),
		program.Within("body", c.Body, minLimit, time.Hour, ""),
		program.Within("grace", c.Grace, minLimit, time.Hour, ""),
		program.Within("write", c.Write, minLimit, time.Hour, ""),
		program.Within("keepalive", c.KeepAlive, minLimit, time.Hour, ""),
		program.Within("patience", c.Patience, minLimit, time.Hour, ""),
		program.Within("late", c.Late, minLimit, time.Hour, ""),
		program.Within("rate", c.Rate, int(2*pieceOfBody*pauses), maxRate, ", so that a trickle is too slow"),
		program.Within("write-rate", c.WriteRate, int(2*sip*pauses), maxRate, ", so that a reader is too slow"),
		program.Within("every", c.Every, time.Millisecond, c.KeepAlive/2, fmt.Sprintf(", so that honest clients stay below -keepalive %v", c.KeepAlive)),
		program.Within("duration", c.Duration, c.shortest(), time.Hour, ", so that every attacker passes its limit"),
	)
}

func (c *Config) oneOf(servers []string) error {
	if slices.Contains(servers, c.Server) {
		return nil
	}
	return fmt.Errorf("-server is %q; it must be one of %s", c.Server, strings.Join(servers, ", "))
}

func (c *Config) secure() bool { return c.Server == "https" }

// slow is how many honest clients are slow.
func (c *Config) slow() int { return max(2, c.Honest/10) }

// ramp is the time in which the attackers come. Honest clients follow.
func (c *Config) ramp() time.Duration { return min(c.Duration/10, time.Second) }

// target is the server as package slow sees it.
func (c *Config) target(address string) slow.Target {
	t := slow.Target{Scheme: "http", Address: address, Host: "localhost", Get: "/2", Post: "/2", Large: fmt.Sprintf("/%d", len(film)), Protocols: []string{"tcp", "h1", "h2"}}
	switch c.Server {
	case server.HTTPS:
		t.Scheme, t.Protocols = "https", append(t.Protocols, "tls")
	case server.Fasthttp:
		t.Protocols = []string{"tcp", "h1"}
	}
	return t
}

// cases are what attackers do: those that a bare server doesn't end by itself.
func (c *Config) cases() []slow.Case {
	t := c.target("")
	return slices.DeleteFunc(slow.Cases(), func(k slow.Case) bool { return k.Control() || k.Soon || k.Harmless || t.Lacks(k) != "" })
}

// What an attacker sends after each pause and reads after each pause, at most, with what TLS 1.3
// adds to a record. Servers count it as well.
const (
	pieceOfBody = 30
	sip         = 50 + 22
)

// pause is what attackers leave between two bytes. It is shorter than all limits.
func (l *Limits) pause() time.Duration {
	return min(l.Header, l.Body, l.Write, l.Grace, l.KeepAlive) / 5
}

// span returns the earliest and the latest end of a case, counted from when the client began to
// be slow. A trickle has at most half of the minimum rate, so it may pay for as long again.
func (l *Limits) span(c slow.Case) (least, most time.Duration) {
	switch c.Limit {
	case slow.Handshake, slow.Header:
		least, most = l.Header, l.Header
	case slow.Body:
		least, most = min(l.Body, l.Grace), l.Body
	case slow.BodyRate:
		least, most = min(l.Body, l.Grace), max(l.Body, 2*l.Grace)
	case slow.Write:
		least, most = min(l.Write, l.Grace), l.Write
	case slow.WriteRate:
		const window = 64 << 10 // the client's system takes so much before it is slow
		least, most = min(l.Write, l.Grace), max(l.Write, 2*(l.Grace+pay(window, l.WriteRate)))
	case slow.KeepAlive:
		least, most = l.KeepAlive, l.KeepAlive
	}
	return least, most
}

// shortest is the shortest duration in which all attackers pass their limits.
func (c *Config) shortest() (longest time.Duration) {
	for _, k := range c.cases() {
		_, most := c.span(k)
		longest = max(longest, most)
	}
	return (longest * 10 / 8).Round(10 * time.Millisecond) // a tenth is the ramp, another to spare
}

// pay returns for how long so many bytes keep a minimum rate.
func pay(n, rate int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(max(1, rate))
}
