package http2conn

// interim reports whether a header block of the server's is that of "100
// Continue": a single field, of the status. A final response has a Date, or a
// status by which HPACK knows it to be one. Of the block the beginning is enough.
func interim(start []byte, length int) bool {
	for len(start) > 0 && start[0]>>5 == 1 { // a change of HPACK's table
		n := integer(start, 5)
		start, length = start[min(n, len(start)):], length-n
	}
	if len(start) == 0 {
		return false
	}
	switch first := start[0]; {
	case first >= 0x88 && first <= 0x8e: // 200 and others of HPACK's static table
		return false
	case first >= 0x80:
		return integer(start, 7) == length
	}
	name := integer(start, 4)
	if start[0]>>6 == 1 {
		name = integer(start, 6)
	}
	if name >= len(start) {
		return false
	}
	return name+1+int(start[name]&0x7f) == length // a status has no more digits
}

// integer returns how many bytes the integer at the beginning of b has, of which
// so many bits are in the first byte (RFC 7541 section 5.1).
func integer(b []byte, bits int) int {
	n := 1
	if most := byte(1)<<bits - 1; b[0]&most == most {
		for n < len(b) && b[n]&0x80 != 0 {
			n++
		}
		n++
	}
	return n
}
