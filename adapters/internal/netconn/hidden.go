package netconn

// Hidden is a Conn without its methods. A type that shows users only some of them embeds
// it, and is recognised by this package. Convert between the two as between a type and
// its definition:
//
//	c := (*netconn.Conn)(&own.hidden)
type Hidden Conn

func (h *Hidden) conn() *Conn { return (*Conn)(h) }

// isConn is implemented by *Conn, by *Hidden, and by types that embed one.
type isConn interface{ conn() *Conn }

func (c *Conn) conn() *Conn { return c }
