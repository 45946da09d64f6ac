//go:build proof

package main

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// TestPacedLoad sends at a pace to a server in this process. It counts what arrives.
func TestPacedLoad(t *testing.T) {
	s, err := server.New(server.Config{Kind: server.Net, Variant: server.Bare})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	c, err := newConnections(server.Net, s.Address, 8)
	if err != nil {
		t.Fatal(err)
	}
	l, err := connectPlain(c, config{conns: 3, pace: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	const d = 200 * time.Millisecond
	for range 2 { // a load is run again and again
		begun := time.Now()
		got, err := l.run(d)
		if took := time.Since(begun); err != nil || got.ops != 20 || got.opsPerS > 100 || took < d {
			t.Errorf("%d messages, %v a second, in %v: %v", got.ops, got.opsPerS, took, err)
		}
	}
	p := l.(*pacedLoad)
	if p.next != 40%3 {
		t.Errorf("after 40 messages over 3 connections it is the turn of %d", p.next)
	}
	for _, fd := range p.fds {
		if p.due[fd] != 0 {
			t.Errorf("an answer of connection %d is outstanding", fd)
		}
	}
}
