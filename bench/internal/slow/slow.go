// Package slow has clients that are slower than anyone needs to be, one connection each, and
// tells what a server does about each of them. It tests behaviour and not capacity: a case is
// one connection, so a server that does not mind it has a hole, however strong it is.
//
// Run tries cases on a target. Beside the cases that a server ought to end there are controls:
// honest clients that are slow for a good reason, and that it must not end.
package slow

import (
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

	GiveUp time.Duration // after which a case counts as held
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
	Protocol string `json:"protocol"` // tcp, tls, h1, h2, ws, grpc or mqtt
	Does     string `json:"does"`     // in a sentence
	Limit    string `json:"limit"`    // what ought to end it; of a control why it must go on
	Control  bool   `json:"control,omitempty"`
	Harmless bool   `json:"harmless,omitempty"` // costs a server so little that it may go on

	needs func(*Target) string // a field of Target
	run   func(p *peer) error
	reads bool // run reads, or nobody does
	small bool // the receive buffer is as small as can be
}

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
	After   float64 `json:"after_s,omitempty"` // seconds from the time at which the client began to be slow; 0 if that is not known
	Why     string  `json:"why,omitempty"`     // of Refused, Skipped and Cut
}

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

// Run tries all cases at the same time, a connection each, and returns what has become of
// them in the order of the cases. It takes as long as Target.GiveUp, and a few seconds.
func Run(ctx context.Context, t Target, cases []Case) []Result {
	results := make([]Result, len(cases))
	var running sync.WaitGroup
	for i, c := range cases {
		running.Go(func() { results[i] = try(ctx, t, c) })
	}
	running.Wait()
	return results
}

// try tries a case.
func try(ctx context.Context, t Target, c Case) Result {
	r := Result{Case: c}
	if why := t.lacks(c); why != "" {
		r.Outcome, r.Why = Skipped, why
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, t.GiveUp)
	defer cancel()
	p, err := dial(ctx, &t, c)
	if err != nil {
		r.Outcome, r.Why = Refused, err.Error()
		return r
	}
	defer p.close()
	err = c.run(p)
	if err == nil && !c.Control {
		p.rest(t.GiveUp)
	}
	end, after := p.ended()
	switch {
	case c.Control && err == nil:
		r.Outcome = Passed
	case c.Control && ctx.Err() != nil && end == "":
		r.Outcome, r.Why = Passed, "not finished when the time was up"
	case c.Control:
		r.Outcome, r.Why, r.By, r.After = Cut, err.Error(), end, after.Seconds()
	case err != nil && !errors.Is(err, errGone):
		r.Outcome, r.Why = Refused, err.Error()
	case end != "":
		r.Outcome, r.By, r.After = Ended, end, after.Seconds()
		if end == closedUnseen {
			r.After = 0
		}
	default:
		r.Outcome, r.After = Held, time.Since(p.since()).Seconds()
	}
	return r
}

// lacks returns what a case needs that the target does not have, or "".
func (t *Target) lacks(c Case) string {
	switch {
	case len(t.Protocols) > 0 && !slices.Contains(t.Protocols, c.Protocol):
		return "the target does not speak " + c.Protocol
	case c.Protocol == "tls" && t.Scheme != "https":
		return "the target has no TLS"
	case t.Scheme == "tcp" && slices.Contains([]string{"tls", "h1", "h2", "ws", "grpc"}, c.Protocol):
		return "the target does not speak HTTP"
	case c.Protocol == "mqtt" && !t.MQTT:
		return "the target is not said to be a broker"
	case c.needs != nil:
		return c.needs(t)
	}
	return ""
}

// need returns what lacks returns for a path that is not known.
func need(flag string, path func(*Target) string) func(*Target) string {
	return func(t *Target) string {
		if path(t) == "" {
			return "-" + flag + " does not say where"
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
