package http2conn

// A message is the position of a stream within the messages of gRPC. Each message has a flag, its
// length in four bytes, and that many bytes.
type message struct {
	head uint8  // bytes of the flag and the length that have arrived
	left uint32 // the length as far as it has arrived, then the bytes that are missing
}

const messageHead = 5

// read records bytes of messages.
func (m *message) read(b []byte) {
	for len(b) > 0 {
		if m.head < messageHead {
			m.left = m.left<<8 | uint32(b[0]) // the flag is shifted out
			m.head++
			b = b[1:]
		} else {
			n := min(m.left, uint32(min(len(b), maxLength)))
			m.left -= n
			b = b[n:]
		}
		if m.head == messageHead && m.left == 0 {
			*m = message{}
		}
	}
}

// open reports whether a message has begun and not ended.
func (m *message) open() bool { return m.head > 0 }

// Messages says that the bodies of requests on c are messages of gRPC. Then the server waits for
// a message that has begun, even if the response has begun too. It must be called before the
// server reads.
func (c *Conn) Messages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = true
}
