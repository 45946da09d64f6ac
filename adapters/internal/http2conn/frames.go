package http2conn

import "encoding/binary"

// A frame is the header of a frame, as RFC 9113 section 4.1 has it.
type frame struct {
	length      uint32
	kind, flags byte
	stream      uint32
}

// Types of frames.
const (
	typeData         = 0x0
	typeHeaders      = 0x1
	typeReset        = 0x3
	typeSettings     = 0x4
	typeGoAway       = 0x7
	typeWindowUpdate = 0x8
	typeContinuation = 0x9
)

const (
	flagEndStream  = 0x1 // of DATA and HEADERS
	flagAck        = 0x1 // of SETTINGS
	flagEndHeaders = 0x4 // of HEADERS and CONTINUATION

	settingInitialWindow = 0x4

	codeCancel = 0x8

	headerLength  = 9
	defaultWindow = 65535
)

// A scanner finds the frames in one direction of a connection, in whatever pieces
// the bytes come.
type scanner struct {
	frame         // the present one, once its header is complete
	head  [9]byte // of the present one
	got   int     // how much of its header has come
	taken uint32  // how much of its payload has come
	kept  [6]byte // the end of what has come of a field of its payload: see keep
}

// A piece is what next has found: the rest of a header, or a part of a payload.
type piece struct {
	begins, ends bool   // a frame does so
	payload      []byte // nil if it is of a header
	offset       uint32 // of payload, within the frame
}

// next takes the next piece from b, which is not empty, and returns what follows
// it.
func (s *scanner) next(b []byte) (p piece, rest []byte) {
	if s.got < headerLength {
		n := copy(s.head[s.got:], b)
		s.got += n
		if s.got == headerLength {
			s.frame = parse(s.head)
			p.begins, p.ends = true, s.length == 0
		}
		rest = b[n:]
	} else {
		n := min(s.length-s.taken, uint32(min(len(b), maxLength)))
		p.payload, p.offset, rest = b[:n], s.taken, b[n:]
		s.taken += n
		p.ends = s.taken == s.length
	}
	if p.ends {
		s.got, s.taken = 0, 0
	}
	return p, rest
}

// maxLength is more than a frame can have.
const maxLength = 1 << 24

func parse(head [9]byte) frame {
	return frame{
		length: binary.BigEndian.Uint32(head[:4]) >> 8,
		kind:   head[3],
		flags:  head[4],
		stream: binary.BigEndian.Uint32(head[5:]) &^ (1 << 31),
	}
}

// between reports whether the scanner is between two frames.
func (s *scanner) between() bool { return s.got == 0 }

// keep collects the fields of a payload, which have the given size, and calls
// field for each that is complete.
func (s *scanner) keep(p piece, size uint32, field func(b []byte)) {
	for i, b := range p.payload {
		at := (p.offset + uint32(i)) % size
		s.kept[at] = b
		if at == size-1 {
			field(s.kept[:size])
		}
	}
}
