package http2conn

import "encoding/binary"

// A ledger is what the frames of both directions tell of a connection. It knows
// neither time nor locks.
type ledger struct {
	in, out scanner
	streams table

	// Windows of the connection, and those that new streams have.
	toClient, toServer         int64
	streamToClient, fromClient int64

	sending  int    // streams of which the response has begun and not ended
	sent     int64  // bytes of DATA since there have been some
	lastIn   uint32 // the highest stream of the client's
	lastOut  uint32 // the highest stream of the server's (it may push)
	lastLeft uint32 // after a GOAWAY of the server's, the highest stream that it serves

	blocks uint32  // how many header blocks of the client's have begun
	block  heading // the last of them
	answer heading // of the server's, likewise

	changed bool    // a stream may have begun or ceased to wait for the client
	window  *wait   // for the window of the connection; nil until it is the first time
	gone    []*wait // of streams that have been closed
}

// A heading is a header block: HEADERS, and CONTINUATION frames without another
// frame between.
type heading struct {
	open   bool // it is not complete
	stream uint32
	ends   bool // the stream
	length int
	start  [16]byte // of the block, if it is the server's
}

func newLedger() ledger {
	return ledger{
		toClient: defaultWindow, toServer: defaultWindow,
		streamToClient: defaultWindow, fromClient: defaultWindow,
		lastLeft: 1<<31 - 1,
	}
}

// receive takes note of what the client has sent.
func (l *ledger) receive(b []byte) {
	for len(b) > 0 {
		var p piece
		p, b = l.in.next(b)
		switch f := &l.in.frame; f.kind {
		case typeData:
			l.bodyArrives(f, p)
		case typeHeaders, typeContinuation:
			if p.begins && f.kind == typeHeaders {
				l.blocks++
				l.block = heading{open: true, stream: f.stream, ends: f.flags&flagEndStream != 0}
			}
			if p.ends && f.flags&flagEndHeaders != 0 && l.block.open {
				l.block.open = false
				l.requestArrives(l.block.stream, l.block.ends)
			}
		case typeReset:
			if p.ends {
				l.close(l.streams.find(f.stream))
			}
		case typeSettings:
			if f.flags&flagAck == 0 {
				l.in.keep(p, 6, l.clientSets)
			}
		case typeWindowUpdate:
			l.in.keep(p, 4, func(b []byte) { l.clientTakes(f.stream, increment(b)) })
		}
	}
}

// bodyArrives notes a part of a DATA frame of the client's. The window is used up
// by its end, so that a frame that takes all of it is waited for.
func (l *ledger) bodyArrives(f *frame, p piece) {
	s := l.streams.find(f.stream)
	if n := len(p.payload); n > 0 && s != nil {
		if s.wait != nil {
			s.wait.Received(n)
		} else {
			s.received += int64(n)
		}
	}
	if !p.ends {
		return
	}
	was := l.toServer
	l.toServer -= int64(f.length)
	if was > 0 && l.toServer <= 0 {
		l.changed = true
	}
	if s == nil {
		return
	}
	s.toServer -= int64(f.length)
	if s.toServer <= 0 {
		l.changed = true
	}
	if f.flags&flagEndStream != 0 {
		l.end(s, clientEnded)
	}
}

// requestArrives notes a complete header of the client's: that of a new stream, or
// the trailer of one.
func (l *ledger) requestArrives(id uint32, ends bool) {
	s := l.streams.find(id)
	switch {
	case s == nil && (id <= l.lastIn || id%2 == 0 || id > l.lastLeft):
		return // the server takes it for an error, or ignores it
	case s == nil:
		l.lastIn = id
		marks := uint8(0)
		if ends {
			marks = clientEnded
		} else {
			l.changed = true
		}
		l.streams.add(stream{id: id, marks: marks, toClient: l.streamToClient, toServer: l.fromClient})
	case ends:
		l.end(s, clientEnded)
	}
}

// clientSets notes a setting of the client's.
func (l *ledger) clientSets(b []byte) {
	if id, value := setting(b); id == settingInitialWindow {
		for i := range l.streams {
			l.streams[i].toClient += value - l.streamToClient
		}
		l.streamToClient = value
		l.changed = true
	}
}

// clientTakes notes that the client will take so many bytes more.
func (l *ledger) clientTakes(id uint32, n int64) {
	if id == 0 {
		l.toClient += n
		return
	}
	if s := l.streams.find(id); s != nil {
		if was := s.toClient; was <= 0 {
			l.changed = true
		}
		s.toClient += n
	}
}

// send takes note of what the server sends. Where that is the code of a RST_STREAM
// that we have asked for, recode is called with its place in b.
func (l *ledger) send(b []byte, recode func(at int, offset uint32, n int)) {
	for rest := b; len(rest) > 0; {
		var p piece
		at := len(b) - len(rest)
		p, rest = l.out.next(rest)
		switch f := &l.out.frame; f.kind {
		case typeData:
			l.responseGoes(f, p)
		case typeHeaders, typeContinuation:
			l.headerGoes(f, p)
		case typeReset:
			s := l.streams.find(f.stream)
			if s != nil && s.is(resetting) && !s.is(serverEnded) && len(p.payload) > 0 {
				recode(at, p.offset, len(p.payload))
			}
			if p.ends {
				l.close(s)
			}
		case typeSettings:
			if f.flags&flagAck == 0 {
				l.out.keep(p, 6, l.serverSets)
			}
		case typeWindowUpdate:
			l.out.keep(p, 4, func(b []byte) { l.serverTakes(f.stream, increment(b)) })
		case typeGoAway:
			if p.offset < 4 {
				p.payload = p.payload[:min(len(p.payload), int(4-p.offset))]
				l.out.keep(p, 4, func(b []byte) { l.leaves(uint32(increment(b))) })
			}
		}
	}
}

// responseGoes notes a part of a DATA frame of the server's.
func (l *ledger) responseGoes(f *frame, p piece) {
	s := l.streams.find(f.stream)
	if n := len(p.payload); n > 0 {
		switch {
		case s == nil:
		case s.wait != nil:
			s.wait.Sent(n)
		default:
			s.sent += int64(n)
		}
		if l.window != nil {
			l.window.Sent(n)
		} else {
			l.sent += int64(n)
		}
	}
	if !p.ends {
		return
	}
	l.toClient -= int64(f.length)
	if s == nil {
		return
	}
	s.toClient -= int64(f.length)
	if s.toClient <= 0 {
		l.changed = true
	}
	if f.flags&flagEndStream != 0 {
		l.end(s, serverEnded)
	}
}

// headerGoes notes a part of a header of the server's. All but an interim one
// begin the response, or end it.
func (l *ledger) headerGoes(f *frame, p piece) {
	h := &l.answer
	if p.begins && f.kind == typeHeaders {
		*h = heading{open: true, stream: f.stream, ends: f.flags&flagEndStream != 0}
	}
	if h.length < len(h.start) {
		copy(h.start[h.length:], p.payload)
	}
	h.length += len(p.payload)
	if !p.ends || f.flags&flagEndHeaders == 0 {
		return
	}
	h.open = false
	s := l.streams.find(h.stream)
	if s == nil {
		if h.stream%2 != 0 || h.stream <= l.lastOut {
			return // it is closed
		}
		l.lastOut = h.stream // it is pushed
		l.streams.add(stream{id: h.stream, marks: clientEnded, toClient: l.streamToClient})
		s = l.streams.find(h.stream)
	}
	if !s.is(responded) && (h.ends || !interim(h.start[:min(h.length, len(h.start))], h.length)) {
		s.marks |= responded
		l.sending++
		l.changed = true
	}
	if h.ends {
		l.end(s, serverEnded)
	}
}

// serverSets notes a setting of the server's.
func (l *ledger) serverSets(b []byte) {
	if id, value := setting(b); id == settingInitialWindow {
		for i := range l.streams {
			l.streams[i].toServer += value - l.fromClient
		}
		l.fromClient = value
		l.changed = true
	}
}

// serverTakes notes that the server will take so many bytes more.
func (l *ledger) serverTakes(id uint32, n int64) {
	if id == 0 {
		if l.toServer <= 0 {
			l.changed = true
		}
		l.toServer += n
		return
	}
	if s := l.streams.find(id); s != nil {
		if s.toServer <= 0 {
			l.changed = true
		}
		s.toServer += n
	}
}

// leaves notes a GOAWAY of the server's: streams after the last that it names are
// ignored.
func (l *ledger) leaves(last uint32) {
	l.lastLeft = min(l.lastLeft, last)
	for i := len(l.streams) - 1; i >= 0; i-- {
		if s := &l.streams[i]; s.id%2 == 1 && s.id > last {
			l.close(s)
		}
	}
}

// end notes that one side has ended a stream; it is closed once both have.
func (l *ledger) end(s *stream, side uint8) {
	if side == serverEnded {
		l.answered(s)
	}
	s.marks |= side
	if s.is(clientEnded) && s.is(serverEnded) {
		l.close(s)
	} else {
		l.changed = true
	}
}

// close closes a stream, if it is not nil.
func (l *ledger) close(s *stream) {
	if s == nil {
		return
	}
	l.answered(s)
	if s.wait != nil {
		l.gone = append(l.gone, s.wait)
	}
	l.streams.remove(s)
}

// answered notes that there is no more of a response, if it had begun. What has
// been sent while there were responses pays for no later ones.
func (l *ledger) answered(s *stream) {
	if !s.is(responded) || s.is(serverEnded) {
		return
	}
	if l.sending--; l.sending > 0 {
		return
	}
	l.sent = 0
	if l.window != nil {
		l.gone, l.window = append(l.gone, l.window), nil
	}
}

// owes reports whether the client has a part of the request to send, and may. Once
// the response has begun they may talk to each other as they like.
func (l *ledger) owes(s *stream) bool {
	return s.marks&(clientEnded|responded|resetting) == 0 && s.toServer > 0 && l.toServer > 0
}

// holds reports whether the client holds a response up. If it has used all of its
// window there is more to come.
func (l *ledger) holds(s *stream) bool {
	return s.marks&(serverEnded|responded|resetting) == responded && s.toClient <= 0
}

// holdsAll is holds for the window that all streams share.
func (l *ledger) holdsAll() bool { return l.sending > 0 && l.toClient <= 0 }

func setting(b []byte) (id uint16, value int64) {
	return binary.BigEndian.Uint16(b), int64(binary.BigEndian.Uint32(b[2:]))
}

// increment is what a WINDOW_UPDATE says, or which stream a GOAWAY names.
func increment(b []byte) int64 { return int64(binary.BigEndian.Uint32(b) &^ (1 << 31)) }

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
