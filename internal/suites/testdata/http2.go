package hook_test

import (
	"crypto/tls"
	"net"

	"golang.org/x/net/http2"
)

func init() {
	if suitesWrap == "" {
		return
	}
	http2.SuitesHook = func(nc net.Conn) net.Conn {
		switch nc := nc.(type) {
		case *tls.Conn: // its listener is wrapped
			return nc
		case interface{ Announce() }: // so is that of a connection of idlehttp
			return nc.(net.Conn)
		case interface{ ConnectionState() tls.ConnectionState }:
			return secure{wrapConn(nc.(net.Conn)), nc.ConnectionState()}
		}
		return wrapConn(nc)
	}
}

// secure is a wrapped connection that claims to speak TLS.
type secure struct {
	net.Conn
	state tls.ConnectionState
}

func (c secure) ConnectionState() tls.ConnectionState { return c.state }
