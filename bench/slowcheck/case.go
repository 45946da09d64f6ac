package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A target is the server that is tried, and where it has what some cases need. Those cases
// are left out if the path is empty.
type target struct {
	scheme, address, host string

	get, post, large, stream string // paths
}

// parse sets where the target is.
func (t *target) parse(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("-target is %q; it must be like https://127.0.0.1:8443 or http://127.0.0.1:8080", text)
	}
	t.scheme, t.address, t.host = u.Scheme, u.Host, u.Hostname()
	if u.Port() == "" {
		t.address = net.JoinHostPort(u.Hostname(), u.Scheme)
	}
	return nil
}

// isLoopback reports whether the target is this machine.
func (t *target) isLoopback() bool {
	ip, err := netip.ParseAddr(t.host)
	return t.host == "localhost" || err == nil && ip.IsLoopback()
}

// A slowCase is one way of being slow.
type slowCase struct {
	Name  string `json:"name"`            // begins with its protocol: tcp, tls, h1 or h2
	Does  string `json:"does"`            // in a phrase
	Limit string `json:"limit,omitempty"` // which one should end it

	honest bool // a server must serve it
	soon   bool // a server may end it at once, because the client has said goodbye or broken the protocol

	needs string                 // a flag of the target: post, large or stream
	visit func(v *visitor) error // of an honest client; the others have run
	run   func(p *peer)
	reads bool // run reads, or nobody does
	small bool // the receive buffer is as small as can be
	raw   bool // run shakes hands itself, or doesn't get that far
}

func (c slowCase) protocol() string {
	protocol, _, _ := strings.Cut(c.Name, "-")
	return protocol
}

// The outcomes.
const (
	ended   = "ended"   // by the server
	held    = "held"    // the server has done nothing for as long as the case went on
	served  = "served"  // an honest client
	cut     = "cut"     // an honest client was ended
	refused = "refused" // the server did not take what comes before the case
	skipped = "skipped" // the target lacks what the case needs
)

// A result is what has become of a case.
type result struct {
	slowCase
	Outcome string  `json:"outcome"`
	By      string  `json:"by,omitempty"`      // how the server has ended it, such as 408, RST or GOAWAY NO_ERROR
	After   float64 `json:"after_s,omitempty"` // seconds since the client began to be slow; 0 if that isn't known
	Why     string  `json:"why,omitempty"`     // of refused, skipped and cut
}

func (r result) tried() bool { return r.Outcome != skipped && r.Outcome != refused }
func (r result) bad() bool   { return r.Outcome == cut || r.Outcome == held }

// cases returns all of them.
func cases() []slowCase {
	return slices.Concat(tcpCases(), http1Cases(), http2Cases(), honestCases())
}

// tryAll tries cases, a connection each, and returns the results in the order of the cases.
// They begin within a second. Cases that ctx interrupts count as held.
func tryAll(ctx context.Context, t target, giveUp time.Duration, all []slowCase) []result {
	results := make([]result, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			time.Sleep(time.Second * time.Duration(i) / time.Duration(len(all)))
			results[i] = try(ctx, &t, giveUp, c)
		})
	}
	running.Wait()
	return results
}

// try tries a case.
func try(ctx context.Context, t *target, giveUp time.Duration, c slowCase) result {
	r := result{slowCase: c}
	if r.Why = t.lacks(c); r.Why != "" {
		r.Outcome = skipped
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	if c.honest {
		connected, err := c.visitServer(ctx, t)
		switch {
		case err == nil || connected && ctx.Err() != nil: // the time was up
			r.Outcome = served
		case connected:
			r.Outcome, r.Why = cut, err.Error()
		default:
			r.Outcome, r.Why = refused, err.Error()
		}
		return r
	}
	p, err := dial(ctx, t, giveUp, c)
	if err != nil {
		r.Outcome, r.Why = refused, err.Error()
		return r
	}
	defer p.close()
	c.run(p)
	if p.refused == "" {
		p.rest(giveUp)
	}
	switch by, after := p.ended(); {
	case p.refused != "":
		r.Outcome, r.Why = refused, p.refused
	case by == closedUnseen:
		r.Outcome, r.By = ended, by
	case by != "":
		r.Outcome, r.By, r.After = ended, by, after.Seconds()
	default:
		r.Outcome = held
	}
	return r
}

// lacks returns what a case needs that the target doesn't have, or "".
func (t *target) lacks(c slowCase) string {
	paths := map[string]string{"": "none", "post": t.post, "large": t.large, "stream": t.stream}
	switch p := c.protocol(); {
	case p == "h2" && t.scheme == "http":
		return "few servers speak HTTP/2 without TLS"
	case p == "tls" && t.scheme == "http":
		return "the target has no TLS"
	case paths[c.needs] == "":
		return "-" + c.needs + " is not set"
	}
	return ""
}

// The limits by which a server may end slow clients.
const (
	endOfInput = "none, the input has ended"
	handshake  = "handshake timeout"
	header     = "header timeout"
	body       = "body timeout"
	bodyRate   = "minimum rate of a body, or its timeout"
	write      = "write timeout"
	writeRate  = "minimum rate of an answer, or its timeout"
	keepAlive  = "keep-alive timeout"
)

func tcpCases() []slowCase {
	halfClose := func(p *peer) { p.wire.CloseWrite() }
	return []slowCase{
		{Name: "tcp-silence", Does: "connects, and sends nothing", Limit: handshake, run: nothing},
		{Name: "tcp-half-close", Does: "connects, and closes its half without sending a byte", Limit: endOfInput, soon: true, run: halfClose},
		{Name: "tls-hello-stops", Does: "sends half a ClientHello", Limit: handshake, raw: true, run: say(halfHello)},
		{Name: "tls-hello-trickle", Does: "sends a ClientHello byte by byte", Limit: handshake, raw: true, run: func(p *peer) { p.trickle(halfHello, "\x00") }},
		{Name: "tls-silence", Does: "shakes hands, and sends nothing", Limit: header, run: nothing},
		{Name: "tls-records", Does: "sends a header in TLS records of one byte", Limit: header, run: func(p *peer) { p.trickle("GET / HTTP/1.1\r\nX: ", "x") }},
		{Name: "tls-half-close", Does: "shakes hands, and closes its half of TCP", Limit: endOfInput, soon: true, run: halfClose},
	}
}

func nothing(*peer) {}

// say is a case that sends something and then waits.
func say(text string) func(*peer) { return func(p *peer) { p.send(text) } }

// halfHello is the beginning of a TLS record with a ClientHello of 512 bytes.
var halfHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 32)

// shake makes the TLS handshake.
func (p *peer) shake(protocol string) error {
	config := server.ClientTLS()
	config.ServerName, config.NextProtos = p.host, []string{"http/1.1"}
	if protocol == "h2" {
		config.NextProtos[0] = protocol
	}
	conn := tls.Client(p.wire, config)
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	if protocol == "h2" && conn.ConnectionState().NegotiatedProtocol != "h2" {
		return errors.New("the server does not offer h2")
	}
	p.conn = conn
	return nil
}
