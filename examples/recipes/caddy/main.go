// Command caddy is Caddy with a listener wrapper that adds the limits which Caddy doesn't have:
// for clients that don't read, and for the number of connections, in all and of one address.
//
//	go -C examples/recipes run ./caddy
//
// A build of Caddy by xcaddy needs the type Wrapper in a package of its own.
package main

import (
	_ "embed"
	"log"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp" // the app http

	"github.com/idlewheel/idlewheel/adapters/admit"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// config is for port 8080. With HTTPS, the wrapper "tls" has to follow, because Caddy finds
// connections with TLS by their type.
//
//go:embed config.json
var config []byte

func main() {
	if err := caddy.Load(config, false); err != nil {
		log.Fatal(err)
	}
	log.Print("serving on http://127.0.0.1:8080")
	select {}
}

// Caddy's modules register themselves.
func init() { caddy.RegisterModule(new(Wrapper)) }

// Wrapper is a listener wrapper of Caddy. A field that's zero sets no limit.
type Wrapper struct {
	IdleTimeout  caddy.Duration `json:"idle_timeout,omitempty"`
	WriteTimeout caddy.Duration `json:"write_timeout,omitempty"`
	MaxConns     int            `json:"max_conns,omitempty"`
	PerKey       int            `json:"per_address,omitempty"`

	policy  idle.Policy
	tracker *idle.Tracker // of all listeners of a server
	gate    *admit.Gate   // of these too
}

func (*Wrapper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.idlewheel", New: func() caddy.Module { return new(Wrapper) }}
}

// Provision checks the configuration.
func (w *Wrapper) Provision(caddy.Context) error {
	w.policy = idle.Policy{IdleTimeout: time.Duration(w.IdleTimeout), WriteTimeout: time.Duration(w.WriteTimeout)}
	gate, err := admit.New(admit.Limits{PerKey: w.PerKey})
	if err != nil {
		return err
	}
	tracker, err := idle.New(w.policy, nil)
	if err != nil {
		return err
	}
	if err := tracker.SetCapacity(idle.Capacity{MaxConns: w.MaxConns}); err != nil {
		tracker.Close()
		return err
	}
	w.gate, w.tracker = gate, tracker
	return nil
}

// Cleanup is called when another configuration has been loaded. The limits hold for as long as
// there are connections.
func (w *Wrapper) Cleanup() error {
	if w.tracker != nil {
		w.tracker.CloseWhenEmpty()
	}
	return nil
}

func (w *Wrapper) WrapListener(ln net.Listener) net.Listener {
	wrapped, err := idlenet.Wrap(w.gate.Listener(ln), w.policy, &idlenet.Options{Tracker: w.tracker})
	if err != nil {
		log.Panic(err) // Provision has checked the policy
	}
	return wrapped
}
