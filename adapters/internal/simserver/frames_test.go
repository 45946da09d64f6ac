package simserver

import (
	"encoding/binary"
	"io"

	"golang.org/x/net/http2/hpack"
)

// Types of frames, flags, settings and error codes of RFC 9113.
const (
	typeData, typeHeaders, typeReset, typeSettings = 0, 1, 3, 4
	typePing, typeGoAway, typeWindowUpdate         = 6, 7, 8

	flagAck, flagEndStream, flagEndHeaders, flagPadded = 1, 1, 4, 8

	settingInitialWindow = 4

	codeNone, codeInternal = 0, 2

	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// A frame is an HTTP/2 frame.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f frame) ends() bool { return f.flags&flagEndStream != 0 }

// number returns the four bytes of the payload at the given offset.
func (f frame) number(at int) uint32 {
	if len(f.payload) < at+4 {
		return 0
	}
	return binary.BigEndian.Uint32(f.payload[at:])
}

func readFrame(r io.Reader) (f frame, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	f = frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	f.payload = make([]byte, binary.BigEndian.Uint32(head[:])>>8)
	if _, err = io.ReadFull(r, f.payload); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// bytes returns the bytes of f on the wire.
func (f frame) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind))
	b = binary.BigEndian.AppendUint32(append(b, f.flags), f.stream)
	return append(b, f.payload...)
}

func windowUpdate(stream uint32, n int) frame {
	return frame{kind: typeWindowUpdate, stream: stream, payload: binary.BigEndian.AppendUint32(nil, uint32(n))}
}

// requestBlock returns the header block of a request. It doesn't use the dynamic table.
func requestBlock(path string) []byte {
	const post, http, authority, withoutIndex = 0x83, 0x86, 0x01, 0x04
	b := append([]byte{post, http, authority, 3}, "sim"...)
	return append(hpackString(append(b, withoutIndex), len(path)), path...)
}

// hpackString appends the length of a string without Huffman coding.
func hpackString(b []byte, n int) []byte {
	const most = 127
	if n < most {
		return append(b, byte(n))
	}
	return append(b, most, byte(n-most)) // long enough for our paths
}

// fields returns the fields of a header block, by name.
func fields(d *hpack.Decoder, block []byte) (map[string]string, error) {
	all, err := d.DecodeFull(block)
	byName := map[string]string{}
	for _, f := range all {
		byName[f.Name] = f.Value
	}
	return byName, err
}
