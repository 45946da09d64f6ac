package main

import (
	"encoding/binary"

	"github.com/idlewheel/idlewheel/idle"
)

// What goes over the test's sockets. A connection begins with a hello, which
// the server answers when the connection is under its own limit; after that
// every byte is a message.
const (
	ready = 'r' // server: the answer to the hello
	ping  = 'p' // server
	talk  = 't' // client: I am here
	beat  = 'b' // client: a beat
)

// A hello says who a connection is and what it is going to do.
type hello [5]byte

func newHello(id uint32, k kind) (h hello) {
	h[0] = byte(k)
	binary.BigEndian.PutUint32(h[1:], id)
	return h
}

func (h hello) kind() kind { return kind(h[0]) }

func (h hello) id() uint32 { return binary.BigEndian.Uint32(h[1:]) }

// A news is a line of JSON that the server process writes to its stdout; one
// of the fields is set.
type news struct {
	Address string   `json:"address,omitempty"` // the first: where it listens
	Closed  *closure `json:"closed,omitempty"`  // a connection has timed out
	Done    *account `json:"done,omitempty"`    // the last
}

// A closure is that a connection has timed out.
type closure struct {
	ID     uint32      `json:"id"`
	Reason idle.Reason `json:"reason"`
}

// An account is what the server's tracker did.
type account struct {
	Stats      idle.Stats `json:"stats"`
	HandedBack int        `json:"handed_back"`
	Pause      pause      `json:"pause"`
}
