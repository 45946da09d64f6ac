package main

import (
	"fmt"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle"
)

// A server is one kind of server, which runs in this process.
type server struct {
	name    string
	address string
	lives   []life
	steady  life // what the veterans do: they live as long as the soak
	ledger  *ledger
	dials   atomic.Uint64
	stats   func() idle.Stats
	stop    func() error
}

// makers is how each kind is started.
var makers = []struct {
	name  string
	start func(*server) error
}{
	{"idlenet", startNet},
	{"idlegnet", startGnet},
	{"http", startHTTP},
	{"http2", startHTTP2},
	{"hijacked", startHijack},
	{"fasthttp", startFasthttp},
}

func serverNames() names {
	var all names
	for _, m := range makers {
		all = append(all, m.name)
	}
	return all
}

// startServers starts those that are asked for. Whoever calls it must stop what
// it returns, whatever the error.
func startServers(wanted names) ([]*server, error) {
	var all []*server
	for _, name := range wanted {
		for _, m := range makers {
			if m.name != name {
				continue
			}
			s := &server{name: name, ledger: newLedger()}
			if err := m.start(s); err != nil {
				return all, fmt.Errorf("starting %s: %w", name, err)
			}
			s.steady = s.lives[0]
			all = append(all, s)
		}
	}
	return all, nil
}
