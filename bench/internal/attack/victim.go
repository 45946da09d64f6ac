package attack

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A victim is the server process as this one sees it.
type victim struct {
	order
	*child.Child
	address   string
	snapshots chan *snapshot // closed when the process has ended
}

// start starts the server process, and waits until it listens. closed is told of
// the connections that it closes.
func start(o order, options child.Options, closed func(closure)) (*victim, error) {
	c, address, err := server.StartChild(Role, o, options)
	if err != nil {
		return nil, err
	}
	v := &victim{order: o, Child: c, address: address, snapshots: make(chan *snapshot, 1)}
	go func() {
		defer close(v.snapshots)
		for {
			var n news
			if c.Hear(&n) != nil {
				return
			}
			if n.Closed != nil {
				closed(*n.Closed)
			}
			if n.Snapshot != nil {
				v.snapshots <- n.Snapshot
			}
		}
	}()
	return v, nil
}

// A state is how the server is, as it says itself and as the kernel does.
type state struct {
	snapshot
	RSS uint64 `json:"rss_bytes"`
	unsent
}

// An unsent is what the kernel keeps of connections that the server has closed
// and whose peers do not read: they stay, with what is yet to be sent, until it
// gives up about a minute later.
type unsent struct {
	Sockets int   `json:"unsent_sockets"`
	Bytes   int64 `json:"unsent_bytes"`
}

const snapshotTimeout = 10 * time.Second

// look returns how the server is.
func (v *victim) look() (s state, err error) {
	if err := v.Tell("?"); err != nil {
		return s, fmt.Errorf("the server has ended: %w", err)
	}
	select {
	case got := <-v.snapshots:
		if got == nil {
			return s, errors.New("the server has ended")
		}
		s.snapshot = *got
	case <-time.After(snapshotTimeout):
		return s, fmt.Errorf("the server has not answered for %v", snapshotTimeout)
	}
	s.RSS = usage.Resident(v.Pid())
	to, err := netip.ParseAddrPort(v.address)
	if err != nil {
		return s, err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	s.unsent = countUnsent(table, to.Port())
	return s, err
}

// countUnsent looks in the kernel's table for what is unsent of the connections
// to a port of this machine.
func countUnsent(table []byte, port uint16) (u unsent) {
	const closed = "04 09 0B" // FIN_WAIT1, LAST_ACK, CLOSING
	local := fmt.Sprintf(":%04X", port)
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 || !strings.HasSuffix(fields[1], local) || !strings.Contains(closed, fields[3]) {
			continue
		}
		queue, _, _ := strings.Cut(fields[4], ":")
		if n, err := strconv.ParseInt(queue, 16, 64); err == nil && n > 0 {
			u.Sockets++
			u.Bytes += n
		}
	}
	return u
}
