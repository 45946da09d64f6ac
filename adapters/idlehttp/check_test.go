package idlehttp

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// What cannot work is refused, and the error says which field of which value is
// to blame, in the package's name.
func TestRefused(t *testing.T) {
	t.Parallel()
	type test struct {
		server *http.Server
		limits Timeouts
		want   []string
	}
	proto := func(names ...string) *http.Server {
		m := map[string]func(*http.Server, *tls.Conn, http.Handler){}
		for _, name := range names {
			m[name] = func(*http.Server, *tls.Conn, http.Handler) {}
		}
		return &http.Server{TLSNextProto: m}
	}
	for name, test := range map[string]test{
		"ReadTimeout":       {server: &http.Server{ReadTimeout: 3 * time.Second}, want: []string{"Server.ReadTimeout", "3s", "HeaderTimeout", "BodyTimeout"}},
		"ReadHeaderTimeout": {server: &http.Server{ReadHeaderTimeout: 3 * time.Second}, want: []string{"Server.ReadHeaderTimeout", "3s", "Timeouts.HeaderTimeout"}},
		"WriteTimeout":      {server: &http.Server{WriteTimeout: 3 * time.Second}, want: []string{"Server.WriteTimeout", "3s", "Timeouts.WriteTimeout"}},
		"IdleTimeout":       {server: &http.Server{IdleTimeout: 3 * time.Second}, want: []string{"Server.IdleTimeout", "3s", "Timeouts.KeepAliveTimeout"}},
		"TLSNextProto":      {server: proto("spdy/1"), want: []string{"Server.TLSNextProto", `"spdy/1"`}},

		"HandshakeTimeout": {limits: Timeouts{HandshakeTimeout: -2}, want: []string{"HandshakeTimeout", "-2ns", "10s", "Off"}},
		"StreamTimeout":    {limits: Timeouts{StreamTimeout: -time.Second}, want: []string{"StreamTimeout", "-1s", "5m0s", "Off"}},
		"BodyRate":         {limits: Timeouts{BodyRate: idle.Rate{BytesPerSecond: -2}}, want: []string{"BodyRate.BytesPerSecond", "-2", "240", "Off"}},
		"a negative grace": {limits: Timeouts{BodyRate: idle.Rate{BytesPerSecond: 1, Grace: -time.Second}}, want: []string{"Grace", "-1s"}},

		"Hijacked":        {limits: Timeouts{Hijacked: idle.Policy{IdleTimeout: -2}}, want: []string{"hijacked", "IdleTimeout", "-2ns"}},
		"Hijacked's beat": {limits: Timeouts{Hijacked: idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}}}, want: []string{"Hijacked", "Heartbeat", "1s", "Watch"}},
		"Idle":            {limits: Timeouts{Idle: idle.Options{Tick: time.Hour}}, want: []string{"Tick", "1h0m0s"}},
		"below the tick":  {limits: Timeouts{HeaderTimeout: ms}, want: []string{"request header", "1ms", "10ms"}},
		"beyond all ages": {limits: Timeouts{KeepAliveTimeout: 1 << 62}, want: []string{"keep-alive", "longest"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.server == nil {
				test.server = &http.Server{}
			}
			l, err := NewListener(test.server, listen(t), test.limits)
			if err == nil {
				l.Close()
				t.Fatal("accepted")
			}
			for _, want := range append(test.want, "idlehttp: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if s := test.server; s.ConnState != nil || s.ConnContext != nil || s.ErrorLog != nil {
				t.Error("the server was changed all the same")
			}
		})
	}
	if _, err := NewListener(nil, listen(t), Timeouts{}); err == nil || err.Error() != "idlehttp: the server is nil" {
		t.Errorf("without a server: %v", err)
	}
	if _, err := NewListener(&http.Server{}, nil, Timeouts{}); err == nil || err.Error() != "idlehttp: the listener is nil" {
		t.Errorf("without a listener: %v", err)
	}
	l, err := NewListener(&http.Server{}, listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := NewListener(&http.Server{}, l, Timeouts{}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a listener that has timeouts: %v", err)
	}
	if err := Serve(nil, nil, Timeouts{}); err == nil {
		t.Error("Serve without anything")
	}
}

// Timeouts of a server's own that are off are no objection, nor are the
// protocols that net/http brings along.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*http.Server{
		"negative":  {ReadTimeout: -1, ReadHeaderTimeout: -1, WriteTimeout: -1, IdleTimeout: -1},
		"no HTTP/2": {TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}},
		"HTTP/2":    {TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": nil, "unencrypted_http2": nil}},
	} {
		l, err := NewListener(server, listen(t), off())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l.Close()
	}
}
