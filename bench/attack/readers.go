package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// filmSize is more than the buffers of both sides hold.
const filmSize = len(film)

// readerStops does not read. The kernel takes what its buffer holds.
func readerStops(a *attacker) { a.watchFilm(0) }

// readerSips takes half of what it has to. Its receive buffer is small, because
// what that takes is what the server sees: a large one would pay for minutes.
func readerSips(a *attacker) { a.watchFilm(max(1, a.writeRate/2/sipsPerSecond)) }

const (
	sipsPerSecond = 10
	sip           = time.Second / sipsPerSecond
)

// narrow is how a socket gets the least receive buffer that there is.
func narrow(_, _ string, c syscall.RawConn) error { return setReceiveBuffer(c, 1) }

// watchFilm asks for a film, and takes so many bytes of it each time.
func (a *attacker) watchFilm(bytes int) {
	before, _ := look(a.wire) // a handshake
	begun := a.send(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", filmSize))
	a.limit(begun, begun.Add(min(a.write, a.grace)))
	looked, progress, received := begun, begun, before.received
	b := make([]byte, bytes)
	for a.rest(sip) {
		now := time.Now()
		f, err := look(a.wire)
		if err != nil || !f.established {
			a.cut(now)
			return
		}
		if f.received > received { // at the last look at the earliest
			progress, received = looked, f.received
		}
		looked = now
		a.limit(now, first(progress.Add(a.write), begun.Add(a.responsePays(received-before.received))))
		if !a.take(b) {
			a.cut(time.Now())
			return
		}
	}
}

// take takes as much as fits in b of what is there, encrypted or not, and reports
// whether there may be more.
func (a *attacker) take(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	a.wire.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := a.wire.Read(b)
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}
