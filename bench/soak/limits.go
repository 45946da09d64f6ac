package main

import (
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// The limits are short, so that many pass. They are the same everywhere, so that
// the clients' lives can be.
const (
	limit = time.Second
	tick  = 10 * time.Millisecond // the trackers' default

	pingInterval = limit / 2
	pingTimeout  = limit / 4
	pingMisses   = 2
	staleAfter   = pingInterval + pingMisses*pingTimeout // since a peer was last heard

	writeRate  = 64 << 10 // bytes a second
	writeGrace = limit / 2
	bodyRate   = 1000
	bodyGrace  = limit
)

func pingPolicy() idle.Policy {
	return idle.Policy{Name: "ping", Heartbeat: idle.Heartbeat{Interval: pingInterval, Timeout: pingTimeout, Misses: pingMisses}}
}

func streamPolicy() idle.Policy {
	return idle.Policy{Name: "stream", MinWriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: writeGrace}}
}

// httpTimeouts are the limits of HTTP. Writing and bodies are to be ended by their
// rates, so their timeouts are out of the way.
func httpTimeouts() httplimits.Timeouts {
	return httplimits.Timeouts{
		HandshakeTimeout: limit, HeaderTimeout: limit, KeepAliveTimeout: limit, StreamTimeout: limit,
		BodyTimeout: 10 * limit, BodyRate: idle.Rate{BytesPerSecond: bodyRate, Grace: bodyGrace},
		WriteTimeout: 10 * limit, WriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: writeGrace},
	}
}
