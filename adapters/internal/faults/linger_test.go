package faults

import (
	"github.com/idlewheel/idlewheel/adapters/idlenet"
)

// fill writes until the connection has timed out.
func fill(c *idlenet.Conn) error {
	b := make([]byte, 64<<10)
	for {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}
