package httpconn

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// patience is how long the answer to a connection that is refused may take.
const patience = time.Second

// refuse closes a connection for which there is no room. If the header of a request has arrived
// already, without TLS, it is answered with 503. It doesn't wait for one, because that would keep
// a descriptor.
func (l *Listener) refuse(nc net.Conn) {
	defer nc.Close()
	if _, isSocket := nc.(syscall.Conn); !isSocket || kernel.InspectConn(nc).Unread == 0 {
		return
	}
	const mostHeader = 4096
	b := make([]byte, mostHeader)
	nc.SetDeadline(time.Now().Add(patience))
	n, err := nc.Read(b)
	line, _, _ := bytes.Cut(b[:n], []byte("\r\n"))
	if err != nil || !bytes.Contains(b[:n], []byte("\r\n\r\n")) || !bytes.Contains(line, []byte(" HTTP/1.")) {
		return
	}
	io.WriteString(nc, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}
