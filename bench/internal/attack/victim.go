package attack

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A victim is the server process as this one sees it.
type victim struct {
	order
	*server.Child
}

// start starts the server process, and waits until it listens.
func start(o order, options child.Options) (*victim, error) {
	c, err := server.StartChild(Role, o, options)
	return &victim{o, c}, err
}

// A state is how the server is, as it says itself and as the kernel does.
type state struct {
	Goroutines int    `json:"goroutines"`
	RSS        uint64 `json:"rss_bytes"`
	sockets
}

// sockets is what the kernel has of the connections to a server. Those that the
// server has closed and whose peers do not read stay, with what is yet to be sent,
// until the kernel gives up about a minute later.
type sockets struct {
	Open   int   `json:"open"` // accepted or not
	Unsent int   `json:"unsent_sockets"`
	Bytes  int64 `json:"unsent_bytes"`
}

// look returns how the server is.
func (v *victim) look() (s state, err error) {
	if err := v.Ask(&s.Goroutines); err != nil {
		return s, err
	}
	s.RSS = usage.Resident(v.Pid())
	to, err := netip.ParseAddrPort(v.Address)
	if err != nil {
		return s, err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	s.sockets = countSockets(table, to.Port())
	return s, err
}

// countSockets looks in the kernel's table for the connections to a port of this
// machine.
func countSockets(table []byte, port uint16) (s sockets) {
	const established, closed = "01", "04 09 0B" // FIN_WAIT1, LAST_ACK, CLOSING
	local := fmt.Sprintf(":%04X", port)
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 || !strings.HasSuffix(fields[1], local) {
			continue
		}
		queue, _, _ := strings.Cut(fields[4], ":")
		n, err := strconv.ParseInt(queue, 16, 64)
		switch {
		case fields[3] == established:
			s.Open++
		case err == nil && n > 0 && strings.Contains(closed, fields[3]):
			s.Unsent++
			s.Bytes += n
		}
	}
	return s
}
