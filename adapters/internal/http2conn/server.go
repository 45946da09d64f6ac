package http2conn

// send records bytes that the server sends. It calls recode for the error code,
// or a part of it, of a RST_STREAM that we have caused. That part is the n bytes
// at b[at:], which begin at the given offset in the code. send returns the offset in b
// of the end of the last frame after which another one may be inserted, or 0 if there is none.
func (l *ledger) send(b []byte, recode func(at int, offset uint32, n int)) (cut int) {
	for rest := b; len(rest) > 0; {
		var p piece
		at := len(b) - len(rest)
		p, rest = l.out.next(rest)
		switch f := &l.out.frame; f.kind {
		case typeData:
			l.serverData(f, p)
		case typeHeaders, typePushPromise, typeContinuation:
			l.serverHeaders(f, p)
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
				l.out.fields(p, 6, l.serverSetting)
			}
		case typeWindowUpdate:
			l.out.fields(p, 4, func(b []byte) { l.serverWindowUpdate(f.stream, increment(b)) })
		case typeGoAway:
			if p.offset < 4 {
				p.payload = p.payload[:min(len(p.payload), int(4-p.offset))]
				l.out.fields(p, 4, func(b []byte) { l.goAway(uint32(increment(b))) })
			}
		}
		l.greeted = l.greeted || p.ends
		if l.mayInsert() {
			cut = len(b) - len(rest)
		}
	}
	return cut
}

// mayInsert reports whether a frame of ours may be sent after what the server has sent:
// not before the SETTINGS with which it begins, nor inside a frame or a header block.
func (l *ledger) mayInsert() bool { return l.greeted && l.out.between() && !l.serverBlock.open }

// serverData records part of a DATA frame of the server's.
func (l *ledger) serverData(f *frame, p piece) {
	s := l.streams.find(f.stream)
	if n := len(l.out.body(p)); n > 0 {
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

// serverHeaders records part of a header block of the server's. Unless it is
// interim, the block begins the response or ends it. The one of a PUSH_PROMISE is a request, and
// only adds to HPACK's table.
func (l *ledger) serverHeaders(f *frame, p piece) {
	h := &l.serverBlock
	if p.begins && f.kind != typeContinuation {
		*h = headerBlock{open: true, stream: f.stream, promises: f.kind == typePushPromise, ends: f.flags&flagEndStream != 0}
	}
	block := l.out.body(p)
	if !p.ends || f.flags&flagEndHeaders == 0 {
		h.begun = append(h.begun, block...)
		return
	}
	if len(h.begun) > 0 {
		block = append(h.begun, block...)
	}
	interim := l.interims.isInterim(block)
	h.open, h.begun = false, nil
	if h.promises {
		return
	}
	s := l.streams.find(h.stream)
	if s == nil {
		if h.stream%2 != 0 || h.stream <= l.lastServer {
			return // the stream is closed
		}
		l.lastServer = h.stream // the stream is pushed
		l.streams.add(stream{id: h.stream, flags: clientEnded, toClient: l.initialToClient})
		s = l.streams.find(h.stream)
	}
	if !s.is(responded) && (h.ends || !interim) {
		s.flags |= responded
		l.responding++
		l.changed = true
	}
	if h.ends {
		l.end(s, serverEnded)
	}
}

// serverSetting records one setting of the server's SETTINGS frame.
func (l *ledger) serverSetting(b []byte) {
	if id, value := setting(b); id == settingInitialWindow {
		for i := range l.streams {
			l.streams[i].toServer += value - l.initialToServer
		}
		l.initialToServer = value
		l.changed = true
	}
}

// serverWindowUpdate records that the client may send n bytes more, on stream id
// or, if that is 0, on the connection.
func (l *ledger) serverWindowUpdate(id uint32, n int64) {
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

// goAway records a GOAWAY frame of the server's. The server ignores the client's
// streams after last.
func (l *ledger) goAway(last uint32) {
	l.goAwayLast = min(l.goAwayLast, last)
	for i := len(l.streams) - 1; i >= 0; i-- {
		if s := &l.streams[i]; s.id%2 == 1 && s.id > last {
			l.close(s)
		}
	}
}
