//go:build unix

package faults

import (
	"fmt"

	"github.com/idlewheel/idlewheel/idle"
)

func init() { children["servers"] = serveAll }

// serveAll runs a server of each kind.
func serveAll() error {
	idling, _, err := newNetServer(idle.Policy{IdleTimeout: limit}, nil, echo)
	if err != nil {
		return err
	}
	beating, _, err := newNetServer(idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 2, Passive: true}}, nil, echo)
	if err != nil {
		return err
	}
	reading, _, err := newNetServer(idle.Policy{ReadTimeout: limit}, nil, echo)
	if err != nil {
		return err
	}
	loop, _, err := newGnetServer(idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, nil, gnetEcho)
	if err != nil {
		return err
	}
	web, _, err := newHTTPServer(hello)
	if err != nil {
		return err
	}
	fmt.Println("listening", idling.address, beating.address, reading.address, loop.address, web)
	untilDismissed()
	return nil
}
