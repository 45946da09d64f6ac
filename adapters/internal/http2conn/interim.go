package http2conn

// An interims value finds the header blocks of a server that are interim responses (1xx). A block
// begins with the status, which may be a reference to HPACK's dynamic table. So interims counts
// the entries added to that table. It needn't know which are evicted, because indexes count from
// the latest entry, and a server never refers to an evicted one.
type interims struct {
	added  uint64    // number of entries that have been added to the dynamic table
	latest [4]uint64 // numbers of the latest entries that are interim statuses, of which there are few
	next   int       // index in latest
}

// Indexes of HPACK's static table whose name is ":status", and the first one of the
// dynamic table (RFC 7541, appendix A and section 2.3.3).
const (
	firstStatus, lastStatus = 8, 14
	firstDynamic            = 62
)

// isInterim reports whether a block is an interim response. It must be called with each
// block of a connection, in order.
func (t *interims) isInterim(block []byte) bool {
	for len(block) > 0 && block[0]>>5 == 1 { // a new size of the dynamic table
		_, block = integer(block, 5)
	}
	interim, block := t.field(block)
	for len(block) > 0 {
		_, block = t.field(block)
	}
	return interim
}

// field takes the first field from a block, and reports whether it is an interim status.
func (t *interims) field(block []byte) (interim bool, rest []byte) {
	if len(block) == 0 {
		return false, nil
	}
	if block[0]>>7 == 1 { // name and value are in a table
		index, rest := integer(block, 7)
		return t.has(index), rest
	}
	bits, adds := 4, false
	if block[0]>>6 == 1 {
		bits, adds = 6, true
	}
	name, rest := integer(block, bits)
	if name == 0 { // it is in no table
		_, rest = text(rest)
	}
	begins1, rest := text(rest)
	interim = firstStatus <= name && name <= lastStatus && begins1
	if adds {
		t.add(interim)
	}
	return interim, rest
}

// add records an entry of the dynamic table.
func (t *interims) add(interim bool) {
	t.added++
	if interim {
		t.latest[t.next%len(t.latest)] = t.added
		t.next++
	}
}

// has reports whether the field with the given index is an interim status.
func (t *interims) has(index uint64) bool {
	if index < firstDynamic || index-firstDynamic >= t.added {
		return false
	}
	number := t.added - (index - firstDynamic)
	for _, n := range t.latest {
		if n == number {
			return true
		}
	}
	return false
}

// text takes a string from b, and reports whether it begins with the digit 1.
func text(b []byte) (begins1 bool, rest []byte) {
	if len(b) == 0 {
		return false, nil
	}
	huffman := b[0]>>7 == 1
	n, rest := integer(b, 7)
	if n > uint64(len(rest)) {
		return false, nil
	}
	switch {
	case n == 0:
	case huffman:
		const one = 0b00001
		begins1 = rest[0]>>3 == one
	default:
		begins1 = rest[0] == '1'
	}
	return begins1, rest[n:]
}

// integer takes from b an integer whose prefix has the given number of bits (RFC 7541,
// section 5.1). If it is malformed, so is the block, and nothing is left.
func integer(b []byte, bits int) (v uint64, rest []byte) {
	most := byte(1)<<bits - 1
	if v = uint64(b[0] & most); v < uint64(most) {
		return v, b[1:]
	}
	const longest = 5
	for i, b1 := range b[1:min(len(b), 1+longest)] {
		v += uint64(b1&0x7f) << (7 * i)
		if b1&0x80 == 0 {
			return v, b[i+2:]
		}
	}
	return 0, nil
}
