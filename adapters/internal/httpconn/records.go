package httpconn

import (
	"crypto/tls"
	"strings"
)

// A records value follows the records of TLS that arrive on a connection, and counts the bytes in
// them that are for the application. Otherwise a client that sends a body in records of one byte
// would seem to send it 23 times as fast. It only reads the lengths in the records' headers. So
// it counts handshake messages and alerts too, and the padding that TLS 1.3 allows.
type records struct {
	left     uint16 // how many bytes of the present record have not arrived
	seen     uint8  // how many bytes of its header have arrived, and flags; a byte more would make Conn larger by 8
	overhead uint8  // how many bytes of a record are not for the application; 0 without TLS
}

// The value of records.seen is a number up to recordHeader and any of these flags.
const (
	data    = 1 << 3 // the present record is for the application, by its type
	updated = 1 << 4 // since forget: a record that looks like a KeyUpdate
	request = 1 << 5 // since forget: the header of a record that may be a part of a request
	counter = data - 1
)

const recordHeader = 5 // its last two bytes are the record's length without the header

const (
	applicationData = 23 // a type of records
	keyUpdate       = 22 // the length of a KeyUpdate of TLS 1.3
)

// forget is called when the next request may begin. A part of its first record may have arrived
// with the previous request.
func (r *records) forget() {
	r.seen &^= updated | request
	if r.seen&data != 0 && r.seen&counter == recordHeader {
		r.seen |= request
	}
}

// hasRequest reports whether a part of a request may have arrived since forget.
func (r *records) hasRequest() bool { return r.seen&request != 0 }

// begin looks at the header of a record. The record of a KeyUpdate looks like one with five bytes
// of a request. So only the first such record is taken for a KeyUpdate. Otherwise a client could
// send a header in such records, and HeaderTimeout would never apply.
func (r *records) begin() {
	switch {
	case r.seen&data == 0:
	case r.left == keyUpdate && r.seen&updated == 0:
		r.seen = r.seen&^data | updated
	default:
		r.seen |= request
	}
}

const (
	overheadLater   = 1  // it is known when the handshake is done
	overheadUnknown = 16 // any modern cipher has at least that
)

// payload returns how many bytes of b, which has arrived, are for the application.
func (r *records) payload(b []byte) (n int) {
	for len(b) > 0 {
		if have := r.seen & counter; have < recordHeader {
			switch {
			case have == 0 && b[0] == applicationData:
				r.seen |= data
			case have >= recordHeader-2:
				r.left = r.left<<8 | uint16(b[0])
			}
			if r.seen++; have+1 == recordHeader {
				r.begin()
			}
			b = b[1:]
			continue
		}
		k := uint16(min(len(b), int(r.left)))
		n += r.rest(r.left) - r.rest(r.left-k)
		if r.left -= k; r.left == 0 {
			r.seen &^= counter | data
		}
		b = b[k:]
	}
	return n
}

// rest returns how many of the last bytes of a record are for the application.
func (r *records) rest(left uint16) int { return max(int(left)-int(r.overhead), 0) }

// overheadOf returns how many bytes each record of a connection has that are not for the
// application. Where that varies it is the least.
func overheadOf(s tls.ConnectionState) uint8 {
	const (
		tag   = 16 // authenticates a record
		kind  = 1  // the type of a record, within TLS 1.3's
		nonce = 8
	)
	switch suite := tls.CipherSuiteName(s.CipherSuite); {
	case s.Version >= tls.VersionTLS13:
		return kind + tag
	case strings.Contains(suite, "CHACHA20"):
		return tag
	case strings.Contains(suite, "GCM"):
		return nonce + tag
	case s.Version > tls.VersionTLS10 && strings.Contains(suite, "AES") && strings.Contains(suite, "CBC"):
		return 16 + 20 + 1 // a block, SHA-1, and one byte of padding at least
	}
	return 20 // SHA-1
}
