package main

import (
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
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

func heartbeat() idle.Heartbeat {
	return idle.Heartbeat{Interval: pingInterval, Timeout: pingTimeout, Misses: pingMisses}
}

func pingPolicy() idle.Policy { return idle.Policy{Name: "ping", Heartbeat: heartbeat()} }

func streamPolicy() idle.Policy {
	return idle.Policy{Name: "stream", MinWriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: writeGrace}}
}

// What the limits of HTTP have in common. Writing and bodies are to be ended by
// their rates, so their timeouts are out of the way.
func httpTimeouts() idlehttp.Timeouts {
	return idlehttp.Timeouts{
		HandshakeTimeout: limit, HeaderTimeout: limit, KeepAliveTimeout: limit, StreamTimeout: limit,
		BodyTimeout: 10 * limit, BodyRate: idle.Rate{BytesPerSecond: bodyRate, Grace: bodyGrace},
		WriteTimeout: 10 * limit, WriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: writeGrace},
	}
}

func fasthttpTimeouts() idlefasthttp.Timeouts {
	t := httpTimeouts()
	return idlefasthttp.Timeouts{
		HandshakeTimeout: t.HandshakeTimeout, HeaderTimeout: t.HeaderTimeout, KeepAliveTimeout: t.KeepAliveTimeout,
		BodyTimeout: t.BodyTimeout, BodyRate: t.BodyRate, WriteTimeout: t.WriteTimeout, WriteRate: t.WriteRate,
	}
}
