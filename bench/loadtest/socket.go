package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A sock is the client's end of a real connection.
type sock struct {
	*peer
	load *socketLoad
	nc   net.Conn
	up   atomic.Bool // it may be used

	// The end of a connection is seen here, and the reason for it comes from
	// the server; the later of the two has the oracle judge.
	mu     sync.Mutex
	seen   int64 // when nc ended, or 0
	reason idle.Reason
}

// dial begins the connection.
func (s *sock) dial(ctx context.Context, address string) error {
	s.begin(s.load.now(), settling)
	d := net.Dialer{LocalAddr: localAddr(int(s.id))}
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s.nc = nc
	said := s.load.now()
	if err := binary.Write(nc, binary.BigEndian, hello{s.kind, s.id}); err != nil {
		return fmt.Errorf("greeting the server: %w", err)
	}
	if _, err := nc.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("waiting for the server's greeting: %w", err)
	}
	s.last.Store(said &^ belated)
	s.settled()
	s.up.Store(true)
	return nil
}

// perAddress is how many connections to one port an address is used for. The
// ports of one address are fewer than 30,000 by default.
const perAddress = 16_000

// localAddr returns where connection i comes from: on Linux all of 127/8 is
// this machine, and elsewhere the choice is left to the system.
func localAddr(i int) net.Addr {
	if n := i / perAddress; n > 0 && runtime.GOOS == "linux" {
		return &net.TCPAddr{IP: net.IPv4(127, 0, byte(n>>8), byte(n)+1)}
	}
	return nil
}

// read answers pings until the connection ends.
func (s *sock) read() {
	var messages [16]byte
	for {
		n, err := s.nc.Read(messages[:])
		if err != nil {
			s.ended(s.load.now())
			return
		}
		for _, m := range messages[:n] {
			if m == ping && !s.quiet(s.load.now()) {
				s.send(talk)
			}
		}
	}
}

// send is an activity.
func (s *sock) send(message byte) {
	before := s.load.now()
	if _, err := s.nc.Write([]byte{message}); err != nil {
		return // read sees it too
	}
	s.load.oracle.touched(s.peer, before, s.load.now())
	s.load.touches.Add(1)
}

// leave ends the connection, unless it is due by now.
func (s *sock) leave(now int64) {
	if time.Duration(now-s.last.Load()) >= s.load.cfg.of(s.kind).after {
		return
	}
	s.load.oracle.left(s.peer)
	s.nc.Close()
}

// ended notes when the connection has ended.
func (s *sock) ended(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = now
	s.judge()
}

// closed notes for what the server has timed the connection out.
func (s *sock) closed(r idle.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = r
	if s.state.Load() == left {
		s.seen = s.load.now() // it ended here first, so the news count
	}
	s.judge()
}

func (s *sock) judge() {
	if s.seen != 0 && s.reason != 0 {
		s.load.oracle.expired(s.peer, s.seen, s.reason)
		s.reason = 0
	}
}

// unexplained reports whether the connection had ended by the given time,
// though nobody had ended it.
func (s *sock) unexplained(by int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen != 0 && s.seen < by && !s.peer.ended()
}

// act does what the connection's life says.
func (s *sock) act() {
	switch now := s.load.now(); s.does(now, s.load.cfg) {
	case touches:
		s.send(talk)
	case beats:
		s.send(beat)
	case talks:
		s.nc.Write([]byte{talk}) // no activity, so the oracle is not told
	case leaves:
		s.leave(now)
	}
}
