package http2conn

import "encoding/binary"

// Preface is the first thing that a client sends (RFC 9113, section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// A frame is the header of a frame (RFC 9113, section 4.1).
type frame struct {
	length      uint32
	kind, flags byte
	stream      uint32
}

// Frame types.
const (
	typeData         = 0x0
	typeHeaders      = 0x1
	typeReset        = 0x3
	typeSettings     = 0x4
	typePushPromise  = 0x5
	typePing         = 0x6
	typeGoAway       = 0x7
	typeWindowUpdate = 0x8
	typeContinuation = 0x9
)

const (
	flagEndStream  = 0x1 // of DATA and HEADERS
	flagAck        = 0x1 // of SETTINGS and PING
	flagEndHeaders = 0x4 // of HEADERS, PUSH_PROMISE and CONTINUATION
	flagPadded     = 0x8 // of DATA, HEADERS and PUSH_PROMISE

	settingInitialWindow = 0x4

	codeCancel = 0x8

	allStreams = 1<<31 - 1 // the last stream in a GOAWAY that accepts all

	headerLength  = 9
	defaultWindow = 65535
)

// A scanner splits one direction of a connection into frames. The bytes may
// arrive in pieces of any size.
type scanner struct {
	frame         // the current frame, once its header is complete
	head  [9]byte // header of the current frame
	got   int     // bytes of the header that have arrived
	taken uint32  // bytes of the payload that have arrived
	pad   uint32  // length of the padding of the current frame
	field [8]byte // the payload field being collected; see fields
}

// A piece is the part of a frame that next has found: the rest of the header, or
// part of the payload.
type piece struct {
	begins, ends bool   // the frame begins or ends with this piece
	payload      []byte // nil if the piece belongs to the header
	offset       uint32 // of payload, within the frame's payload
}

// next takes the next piece from b, which must not be empty. It returns the piece
// and the bytes that follow it.
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

// maxLength is greater than the length of any frame.
const maxLength = 1 << 24

// parse returns the fields of a frame's header.
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

// body returns what a piece has of the data in a DATA frame, or of the header block in another one.
// The rest is the length of the padding, then the stream that a PUSH_PROMISE promises, and, at the
// end, the padding.
func (s *scanner) body(p piece) []byte {
	begin, end := uint32(0), s.length
	if s.flags&flagPadded != 0 && s.kind != typeContinuation && len(p.payload) > 0 {
		if p.offset == 0 {
			s.pad = uint32(p.payload[0])
		}
		begin, end = 1, s.length-min(s.length, s.pad)
	}
	if s.kind == typePushPromise {
		begin += 4
	}
	begin, end = max(begin, p.offset), min(end, p.offset+uint32(len(p.payload)))
	if end <= begin {
		return nil
	}
	return p.payload[begin-p.offset : end-p.offset]
}

// fields splits a payload into fields of the given size, at most 8 bytes, and
// calls f with each complete one.
func (s *scanner) fields(p piece, size uint32, f func(b []byte)) {
	for i, b := range p.payload {
		at := (p.offset + uint32(i)) % size
		s.field[at] = b
		if at == size-1 {
			f(s.field[:size])
		}
	}
}

// goAwayFrame returns a GOAWAY frame without an error, with the given last stream.
func goAwayFrame(last uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0, 0, 8, typeGoAway, 0, 0, 0, 0, 0}, last)
	return append(b, 0, 0, 0, 0)
}

// pingData distinguishes our PING from the server's.
const pingData = "goodbye?"

// pingFrame returns our PING.
func pingFrame() []byte {
	return append([]byte{0, 0, 8, typePing, 0, 0, 0, 0, 0}, pingData...)
}
