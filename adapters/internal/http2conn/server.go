package http2conn

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
