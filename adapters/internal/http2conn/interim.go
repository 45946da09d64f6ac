package http2conn

// interim reports whether a header block of the server's is a "100 Continue"
// response. Such a block has a single field, the status. A final response either
// has more fields, such as Date, or a status that HPACK's static table has.
// length is the length of the block. start has its first bytes; 16 are enough.
func interim(start []byte, length int) bool {
	for len(start) > 0 && start[0]>>5 == 1 { // a dynamic table size update
		n := integerLength(start, 5)
		start, length = start[min(n, len(start)):], length-n
	}
	if len(start) == 0 {
		return false
	}
	switch first := start[0]; {
	case first >= 0x88 && first <= 0x8e: // a status of HPACK's static table, from 200 on
		return false
	case first >= 0x80:
		return integerLength(start, 7) == length
	}
	name := integerLength(start, 4)
	if start[0]>>6 == 1 {
		name = integerLength(start, 6)
	}
	if name >= len(start) {
		return false
	}
	return name+1+int(start[name]&0x7f) == length // the value of a status is the last thing in the block
}

// integerLength returns the length in bytes of the integer at the beginning of b,
// whose prefix has the given number of bits (RFC 7541, section 5.1).
func integerLength(b []byte, bits int) int {
	n := 1
	if most := byte(1)<<bits - 1; b[0]&most == most {
		for n < len(b) && b[n]&0x80 != 0 {
			n++
		}
		n++
	}
	return n
}
