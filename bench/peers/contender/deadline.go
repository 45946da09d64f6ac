package contender

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

// deadlines is the standard library's way: SetReadDeadline before each read of
// a socket, in which a goroutine waits.
type deadlines struct {
	timeout time.Duration
	expired func(int)
	conns   []*net.UDPConn
	reading []bool
}

// mostSockets returns how many sockets a process may have: as many as there are
// descriptors, less some for everything else, or ports that the system gives to
// sockets which do not ask for a certain one.
func mostSockets() int {
	ports := uint64(16_000)
	if runtime.GOOS == "linux" {
		ports = 20_000
	}
	return int(max(min(machine.Descriptors(), ports), 101) - 100)
}

func newDeadlines(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	d := &deadlines{timeout: timeout, expired: expired, reading: make([]bool, n)}
	for len(d.conns) < n {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			d.Close()
			return nil, fmt.Errorf("opening socket %d of %d: %w", len(d.conns)+1, n, err)
		}
		d.conns = append(d.conns, c)
	}
	return d, nil
}

func (d *deadlines) Arm(i int) {
	_ = d.conns[i].SetReadDeadline(time.Now().Add(d.timeout)) // fails only for a closed socket, here and below
	if !d.reading[i] {
		d.reading[i] = true
		go d.read(i)
	}
}

func (d *deadlines) read(i int) {
	if _, err := d.conns[i].Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		d.expired(i)
	}
}

func (d *deadlines) Cancel(i int) { _ = d.conns[i].SetReadDeadline(time.Time{}) }

func (d *deadlines) Touch(list []uint32) {
	for _, i := range list {
		_ = d.conns[i].SetReadDeadline(time.Now().Add(d.timeout))
	}
}

func (d *deadlines) Close() {
	for _, c := range d.conns {
		c.Close()
	}
}
