package idlenet

import "net"

// From returns the Conn that nc is, embeds or wraps, nil if there is none. It looks
// through all wrappers that have a method NetConn, as *tls.Conn has.
func From(nc net.Conn) *Conn {
	for nc != nil {
		if c, ok := nc.(isConn); ok {
			return c.self()
		}
		wrapper, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = wrapper.NetConn()
	}
	return nil
}

// isConn is a *Conn, or what embeds a Conn.
type isConn interface{ self() *Conn }

func (c *Conn) self() *Conn { return c }
