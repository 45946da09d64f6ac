// Package slow has clients that hold a connection by being slow, and reports what a server does
// about each of them. A case is one connection, so it tests behavior and not capacity.
//
// Beside the cases that a server should end there are controls: honest clients that are slow for
// a good reason, which it must serve. A case names the control that does the same thing honestly.
package slow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Target is the server that is tried, and where it has what some cases need. Those cases are
// left out if the path is empty.
type Target struct {
	Scheme  string // http, https or tcp
	Address string // host:port
	Host    string // for headers and for the server's name in TLS

	Protocols []string // that the server speaks; empty means whatever goes with the scheme

	Get    string // a small answer
	Post   string // takes a body
	Large  string // an answer of some megabytes
	Stream string // an answer that begins at once and then says nothing for a minute, as Server-Sent Events do
	WS     string // a WebSocket that does not end by itself
	GRPC   string // a bidirectional method: /package.Service/Method
	MQTT   bool   // the server is a broker

}

// Options say how Run tries cases.
type Options struct {
	GiveUp time.Duration // after which a case counts as held
	Pause  time.Duration // between two bytes of a client that trickles; 0 means a second
	Ramp   time.Duration // the cases begin evenly spread over this time
	AtOnce int           // how many connections there are at a time; 0 means all
}

// Longest returns how long Run takes at most for so many cases.
func (o Options) Longest(cases int) time.Duration {
	turns := 1
	if o.AtOnce > 0 {
		turns = (cases + o.AtOnce - 1) / o.AtOnce
	}
	return o.Ramp + time.Duration(turns)*(o.GiveUp+drainTime)
}

// ParseTarget returns the target that a URL names. The paths are left to the caller.
func ParseTarget(text string) (t Target, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "tcp"}, u.Scheme) {
		return t, fmt.Errorf("it is %q; it must be like https://127.0.0.1:8443, http://127.0.0.1:8080 or tcp://127.0.0.1:1883", text)
	}
	t = Target{Scheme: u.Scheme, Address: u.Host, Host: u.Hostname()}
	if u.Port() == "" {
		switch u.Scheme {
		case "http":
			t.Address = net.JoinHostPort(u.Hostname(), "80")
		case "https":
			t.Address = net.JoinHostPort(u.Hostname(), "443")
		default:
			return t, fmt.Errorf("it is %q; a tcp target needs a port", text)
		}
	}
	return t, nil
}

// IsLoopback reports whether the target is this machine.
func (t *Target) IsLoopback() bool {
	ip, err := netip.ParseAddr(t.Host)
	return t.Host == "localhost" || err == nil && ip.IsLoopback()
}

// A Case is one way of being slow.
type Case struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`           // tcp, tls, h1, h2, ws, grpc or mqtt
	Does     string `json:"does"`               // in a phrase
	Limit    Limit  `json:"limit,omitempty"`    // which one should end it; "" for a control
	Beside   string `json:"control,omitempty"`  // the control that does the same honestly, if anyone does
	Reason   string `json:"reason,omitempty"`   // of a control: why it must be served
	Soon     bool   `json:"soon,omitempty"`     // a server may end it at once, because the client has said goodbye or broken the protocol
	Harmless bool   `json:"harmless,omitempty"` // it costs so little that it may go on

	needs func(*Target) string // returns why the target lacks what the case needs, or ""
	run   func(p *peer) error
	reads bool // run reads, or nobody does
	small bool // the receive buffer is as small as can be
	raw   bool // run shakes hands itself, or doesn't get that far
	keys  bool // run encrypts its records itself, see keys
}

// Control reports whether c is an honest client.
func (c Case) Control() bool { return c.Limit == "" }

// A Limit is one that a server may have against slow clients.
type Limit string

// The limits.
const (
	EndOfInput  Limit = "none, the input has ended"
	Handshake   Limit = "handshake timeout"
	Header      Limit = "header timeout"
	Body        Limit = "body timeout"
	BodyRate    Limit = "minimum rate of a body, or its timeout"
	Write       Limit = "write timeout"
	WriteRate   Limit = "minimum rate of an answer, or its timeout"
	KeepAlive   Limit = "keep-alive timeout"
	Ping        Limit = "unanswered ping, or silence"
	Frame       Limit = "unanswered ping, or the timeout of a frame"
	Resets      Limit = "bound on canceled requests"
	Connect     Limit = "timeout of the CONNECT packet"
	ClientsPing Limit = "one and a half times the client's keep alive (MQTT 3.1.1, 3.1.2.10)"
)

// What has become of a case.
const (
	Ended   = "ended"   // by the server
	Held    = "held"    // the server has done nothing for as long as the case went on
	Passed  = "passed"  // a control was served
	Cut     = "cut"     // a control was ended
	Refused = "refused" // the server did not take what comes before the case, so it tells nothing
	Skipped = "skipped" // the target lacks what the case needs
)

// A Result is what has become of a case.
type Result struct {
	Case
	Outcome string  `json:"outcome"`
	By      string  `json:"by,omitempty"`      // how the server has ended it, such as 408, RST or GOAWAY NO_ERROR
	After   float64 `json:"after_s,omitempty"` // seconds since the client began to be slow; 0 if that isn't known
	Why     string  `json:"why,omitempty"`     // of Refused, Skipped and Cut
}

// Tried reports whether the case could be tried.
func (r Result) Tried() bool { return r.Outcome != Skipped && r.Outcome != Refused }

// Good reports whether the result is as it ought to be, or tells nothing.
func (r *Result) Good() bool { return r.Outcome != Cut && (r.Outcome != Held || r.Harmless) }

// Cases returns all cases of some protocols, or of all if none is named.
func Cases(protocols ...string) (some []Case) {
	for _, c := range slices.Concat(tcpCases(), http1Cases(), http2Cases(), webSocketCases(), grpcCases(), mqttCases()) {
		if len(protocols) == 0 || slices.Contains(protocols, c.Protocol) {
			some = append(some, c)
		}
	}
	return some
}

// Protocols returns the protocols that cases have.
func Protocols() (all []string) {
	for _, c := range Cases() {
		if !slices.Contains(all, c.Protocol) {
			all = append(all, c.Protocol)
		}
	}
	return all
}

// Run tries cases, a connection each, and returns the results in the order of the cases. Cases
// that ctx interrupts count as held.
func Run(ctx context.Context, t Target, o Options, cases []Case) []Result {
	o.Pause = cmp.Or(o.Pause, time.Second)
	results := make([]Result, len(cases))
	places := make(chan struct{}, cmp.Or(o.AtOnce, max(1, len(cases))))
	var running sync.WaitGroup
	begun := time.Now()
	for i, c := range cases {
		sleep(ctx, time.Until(begun.Add(o.Ramp*time.Duration(i)/time.Duration(len(cases)))))
		places <- struct{}{}
		running.Go(func() {
			results[i] = try(ctx, t, o, c)
			<-places
		})
	}
	running.Wait()
	return results
}

// sleep waits until d has passed or ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// try tries a case.
func try(ctx context.Context, t Target, o Options, c Case) Result {
	r := Result{Case: c}
	if why := t.Lacks(c); why != "" {
		r.Outcome, r.Why = Skipped, why
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, o.GiveUp)
	defer cancel()
	p, err := dial(ctx, &t, o, c)
	if err != nil {
		r.Outcome, r.Why = Refused, err.Error()
		return r
	}
	defer p.close()
	err = c.run(p)
	if err == nil && !c.Control() {
		p.rest(o.GiveUp)
	}
	end, after := p.ended()
	switch {
	case c.Control() && err == nil:
		r.Outcome = Passed
	case c.Control() && ctx.Err() != nil && end == "":
		r.Outcome, r.Why = Passed, "not finished when the time was up"
	case c.Control():
		r.Outcome, r.Why, r.By, r.After = Cut, err.Error(), end, after.Seconds()
	case err != nil && !errors.Is(err, errGone):
		r.Outcome, r.Why = Refused, err.Error()
	case end != "":
		r.Outcome, r.By, r.After = Ended, end, after.Seconds()
		if end == closedUnseen {
			r.After = 0
		}
	default:
		r.Outcome, r.After = Held, p.held().Seconds()
	}
	return r
}

// Lacks returns what a case needs that the target doesn't have, or "".
func (t *Target) Lacks(c Case) string {
	switch {
	case len(t.Protocols) > 0 && !slices.Contains(t.Protocols, c.Protocol):
		return "the target does not speak " + c.Protocol
	case len(t.Protocols) == 0 && t.Scheme == "http" && c.Protocol == "h2":
		return "few servers speak HTTP/2 without TLS; -protocol h2 tries it"
	case c.Protocol == "tls" && t.Scheme != "https":
		return "the target has no TLS"
	case t.Scheme == "tcp" && slices.Contains([]string{"tls", "h1", "h2", "ws", "grpc"}, c.Protocol):
		return "the target does not speak HTTP"
	case c.Protocol == "mqtt" && !t.MQTT:
		return "-mqtt is not set"
	case c.needs != nil:
		return c.needs(t)
	}
	return ""
}

// need returns what Lacks returns for a path that is not known.
func need(flag string, path func(*Target) string) func(*Target) string {
	return func(t *Target) string {
		if path(t) == "" {
			return "-" + flag + " is not set"
		}
		return ""
	}
}

// firstLine returns the status of an HTTP/1 response, or "".
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\r\n")
	if proto, rest, ok := strings.Cut(line, " "); ok && strings.HasPrefix(proto, "HTTP/") {
		code, _, _ := strings.Cut(rest, " ")
		return code
	}
	return ""
}
