package idlenet

import "net"

// Unwrap returns the Conn that nc is, embeds or wraps, or nil if there is none. It
// looks through wrappers that have a NetConn method, such as *tls.Conn.
func Unwrap(nc net.Conn) *Conn {
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

// isConn is implemented by *Conn and by types that embed a Conn.
type isConn interface{ self() *Conn }

func (c *Conn) self() *Conn { return c }
