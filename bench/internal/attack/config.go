// Package attack sets hostile clients on servers, each of which runs in a
// process of its own.
//
// Run holds connections as slowly as it can while honest clients make requests,
// and judges when the server cuts them. Cost sends as much as it can, and
// measures what CPU time that takes with timeouts and without.
package attack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
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
	fast := max(10, int(4*float64(c.piece())/max(c.Body, minLimit).Seconds())+1) // a trickle of half of it never pauses for too long
	return cmp.Or(
		c.oneOf(Servers()),
		program.Within("attackers", c.Attackers, 1, maxClients, ""),
		program.Within("honest", c.Honest, 1, maxClients, ""),
		program.Within("write-rate", c.WriteRate, 10, maxRate, ""),
		program.Within("header", c.Header, minLimit, time.Hour, ""),
		program.Within("body", c.Body, minLimit, time.Hour, ""),
		program.Within("grace", c.Grace, minLimit, time.Hour, ""),
		program.Within("write", c.Write, minLimit, time.Hour, ""),
		program.Within("keepalive", c.KeepAlive, minLimit, time.Hour, ""),
		program.Within("patience", c.Patience, minLimit, time.Hour, ""),
		program.Within("late", c.Late, minLimit, time.Hour, ""),
		program.Within("rate", c.Rate, fast, maxRate, fmt.Sprintf("; with -body %v a slower body would have to pause for too long", c.Body)),
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

func (c *Config) http2() bool { return c.Server != "fasthttp" }

// slow is how many honest clients are slow.
func (c *Config) slow() int { return max(2, c.Honest/10) }

// ramp is the time in which the attackers come. Honest clients follow.
func (c *Config) ramp() time.Duration { return min(c.Duration/10, time.Second) }

// tlsOverhead is how many bytes TLS 1.3 adds to what is written at once. The
// server counts them as well.
const tlsOverhead = 22

// piece is how many bytes a trickling body comes by, as the server sees it.
func (c *Config) piece() int {
	if c.secure() {
		return 1 + tlsOverhead
	}
	return 1
}

// shortest is the shortest duration in which all attackers pass their limits.
func (c *Config) shortest() time.Duration {
	played := 2*c.Header + c.Body + c.KeepAlive
	longest := max(
		played-margin(played)+c.Header,            // brink
		2*c.responsePays(2048),                    // reader-sips: half the speed, and a first window pays in advance
		2*c.bodyPays(bodyStart),                   // body-trickle: half the speed at the most
		max(c.Write, 2*c.bodyPays(1))+c.KeepAlive, // those of HTTP/2
	)
	return (longest * 10 / 8).Round(10 * time.Millisecond) // a tenth is the ramp, another to spare
}

// bodyPays returns for how long n bytes of a body keep its minimum rate, the
// grace included.
func (l *Limits) bodyPays(n int) time.Duration { return l.Grace + pay(n, l.Rate) }

// responsePays returns the same of a response.
func (l *Limits) responsePays(n int) time.Duration { return l.Grace + pay(n, l.WriteRate) }

func pay(n, rate int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(max(1, rate))
}

// margin is how long before a limit the attackers act that play with it. It
// leaves time for a machine that is busy.
func margin(limit time.Duration) time.Duration { return limit / 5 }
