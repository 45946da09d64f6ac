// Package wire is what clients and gateways send each other.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Frame is two bytes that say how many follow, one that says what it is, and the rest.
type Frame struct {
	Kind byte
	Body []byte
}

const (
	Hello   = 'h' // from a client: the number of its session, eight bytes, and its name
	Welcome = 'w' // to a client: the name of the node
	Beat    = 'b' // from a client
	Message = 'm' // either way: a Letter
	Ack     = 'a' // either way: a Letter without text, for a Message with the same ID
	Move    = 'v' // to a client: the address of the node to connect to instead
	Bye     = 'x' // to a client: why its connection is closed
)

const (
	HeadSize = 2    // bytes
	MaxFrame = 4096 // bytes that follow
	maxName  = 64
)

// Plain reports whether a name has letters and digits of ASCII, and the given signs, only.
// Batches and subjects have such names as they are.
func Plain(name, signs string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(signs, r)
	})
}

// SizeOf returns how many bytes follow the head.
func SizeOf(head []byte) (int, error) {
	n := int(binary.BigEndian.Uint16(head))
	if n < 1 || n > MaxFrame {
		return 0, fmt.Errorf("a frame of %d bytes; it must have 1 to %d", n, MaxFrame)
	}
	return n, nil
}

// Append appends the bytes of f to b.
func (f Frame) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(1+len(f.Body)))
	return append(append(b, f.Kind), f.Body...)
}

// ReadFrame reads a frame, as a client does.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [HeadSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n, err := SizeOf(head[:])
	if err != nil {
		return Frame{}, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return Frame{}, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return Frame{b[0], b[1:]}, nil
}

// NewHello returns the frame by which a client introduces itself. A name has 1 to 64
// characters: letters, digits, dots, underscores and hyphens. A client numbers its sessions,
// and each new one gets a greater number than the last .
func NewHello(name string, session uint64) Frame {
	return Frame{Hello, append(binary.BigEndian.AppendUint64(nil, session), name...)}
}

// ParseHello returns what NewHello was given.
func ParseHello(body []byte) (name string, session uint64, ok bool) {
	if len(body) < 8 || len(body) > 8+maxName {
		return "", 0, false
	}
	name = string(body[8:])
	return name, binary.BigEndian.Uint64(body), Plain(name, "._-")
}

// A Letter is what one client sends another. Name is the receiver on the way to the node,
// and the sender on the way from it. A client sends it again until it is acknowledged, and
// one that receives it again acknowledges it again. So no node has to remember it.
type Letter struct {
	ID   uint64
	Name string
	Text []byte
}

// Append appends the bytes of l to b.
func (l Letter) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, l.ID)
	return append(AppendName(b, l.Name), l.Text...)
}

// ParseLetter returns the letter that is the body of a Message or an Ack.
func ParseLetter(body []byte) (l Letter, ok bool) {
	if len(body) < 8 {
		return l, false
	}
	l.ID = binary.BigEndian.Uint64(body)
	l.Name, l.Text, ok = CutName(body[8:])
	return l, ok
}

// AppendName appends a name after its length.
func AppendName(b []byte, name string) []byte { return append(append(b, byte(len(name))), name...) }

// CutName returns the name with which b begins, and what follows it.
func CutName(b []byte) (name string, rest []byte, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}
