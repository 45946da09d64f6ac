package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is two bytes that say how many follow, one that says what it is, and
// the rest.
type frame struct {
	kind byte
	body []byte
}

const (
	hello   = 'h' // from a device: the interval at which it will beat, in ms, four bytes; 0 for never
	welcome = 'w' // to a device: the interval that holds
	beat    = 'b' // from a device
	data    = 'd' // either way
	bye     = 'x' // to a device: why it is closed
)

const (
	headSize = 2
	maxSize  = 4096
)

var errSize = fmt.Errorf("a frame must have 1 to %d bytes", maxSize)

// sizeOf returns how many bytes follow the head.
func sizeOf(head []byte) (int, error) {
	n := int(binary.BigEndian.Uint16(head))
	if n < 1 || n > maxSize {
		return 0, errSize
	}
	return n, nil
}

func (f frame) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(1+len(f.body)))
	return append(append(b, f.kind), f.body...)
}

func readFrame(r io.Reader) (frame, error) {
	head := make([]byte, headSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return frame{}, err
	}
	n, err := sizeOf(head)
	if err != nil {
		return frame{}, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return frame{}, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return frame{b[0], b[1:]}, nil
}
