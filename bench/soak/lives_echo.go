package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// The first byte that a client sends to an echo server says what it wants.
const (
	modeEcho   = 'e' // its bytes back
	modePing   = 'p' // to be pinged
	modeStream = 's' // bytes without end
	modeHalf   = 'h' // words until long after it has closed its side
)

// What is said under a heartbeat, and after half of the connection is closed.
const (
	ping = 'P'
	pong = 'p'

	halfWords = 8
	halfEvery = limit / 4
)

// A word tells when it was said.
type word [8]byte

var began = time.Now()

func newWord() (w word) {
	binary.LittleEndian.PutUint64(w[:], uint64(time.Since(began)))
	return w
}

func (w word) said() time.Time {
	return began.Add(time.Duration(binary.LittleEndian.Uint64(w[:])))
}

// echo sends something and wants it back.
func echo(c *client, p *pulse) error {
	sent := fmt.Appendf(nil, "%c%d", modeEcho, c.rng.Uint32())
	begin, err := c.say(p, sent)
	if err != nil {
		return err
	}
	got := make([]byte, len(sent))
	c.SetReadDeadline(time.Time{})
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	p.heard(begin)
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("sent %q, got %q", sent, got)
	}
	return nil
}

// askForPings puts a connection to an echo server under a heartbeat.
func askForPings(c *client, p *pulse) (span, error) {
	begin, err := c.say(p, []byte{modePing})
	return span{begin, time.Now()}, err
}
