// Package frames has as much of HTTP/2 as clients need that write it themselves.
package frames

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Types of frames, and their flags.
const (
	Data, Headers, Reset, Settings, Ping, GoAway, WindowUpdate, Continuation = 0, 1, 3, 4, 6, 7, 8, 9

	EndStream, Ack, EndHeaders = 1, 1, 4
)

// Hello is what a client says first, with settings that it need not change.
const Hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// Get returns the headers of a GET of a short path by https.
func Get(path string) string {
	return "\x82\x87\x04" + string(rune(len(path))) + path + "\x01\x09localhost"
}

// Call returns the headers of a call of gRPC, without TLS, of a method with a short path.
func Call(path string) string {
	return "\x83\x86\x04" + string(rune(len(path))) + path + "\x01\x09localhost" +
		"\x0f\x10\x10application/grpc" + "\x00\x02te\x08trailers"
}

// Message returns a message of gRPC.
func Message(body []byte) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))) + string(body)
}

// New returns a frame.
func New(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return string(binary.BigEndian.AppendUint32(b, stream)) + payload
}

// A Frame is what a server has sent.
type Frame struct {
	Kind, Flags byte
	Stream      uint32
	Payload     []byte
}

// Read reads a frame.
func Read(r io.Reader) (f Frame, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	size := uint32(head[0])<<16 | uint32(head[1])<<8 | uint32(head[2])
	if size > 1<<14 {
		return f, fmt.Errorf("a frame has %d bytes", size)
	}
	f = Frame{head[3], head[4], binary.BigEndian.Uint32(head[5:]), make([]byte, size)}
	_, err = io.ReadFull(r, f.Payload)
	return f, err
}
