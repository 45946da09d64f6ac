package http2conn

// receive records bytes that the client has sent.
func (l *ledger) receive(b []byte) {
	for len(b) > 0 {
		var p piece
		p, b = l.in.next(b)
		switch f := &l.in.frame; f.kind {
		case typeData:
			l.clientData(f, p)
		case typeHeaders, typeContinuation:
			if p.begins && f.kind == typeHeaders {
				l.blocks++
				l.clientBlock = headerBlock{open: true, stream: f.stream, ends: f.flags&flagEndStream != 0}
			}
			if p.ends && f.flags&flagEndHeaders != 0 && l.clientBlock.open {
				l.clientBlock.open = false
				l.clientHeaders(l.clientBlock.stream, l.clientBlock.ends)
			}
		case typeReset:
			if p.ends {
				l.close(l.streams.find(f.stream))
			}
		case typeSettings:
			if f.flags&flagAck == 0 {
				l.in.fields(p, 6, l.clientSetting)
			}
		case typePing:
			if f.flags&flagAck != 0 {
				l.in.fields(p, 8, func(b []byte) { l.pong = l.pong || string(b) == pingData })
			}
		case typeWindowUpdate:
			l.in.fields(p, 4, func(b []byte) { l.clientWindowUpdate(f.stream, increment(b)) })
		}
	}
}

// clientData records part of a DATA frame of the client's. The window shrinks only at the end of
// the frame, so the server still waits for the client in the middle of a frame that uses the
// whole window.
func (l *ledger) clientData(f *frame, p piece) {
	s := l.streams.find(f.stream)
	if data := l.in.body(p); len(data) > 0 && s != nil {
		if s.wait != nil {
			s.wait.Received(len(data))
		} else {
			s.received += int64(len(data))
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

// clientHeaders records a complete header block of the client's. It opens a
// stream or is the trailer of one.
func (l *ledger) clientHeaders(id uint32, ends bool) {
	s := l.streams.find(id)
	switch {
	case s == nil && (id <= l.lastClient || id%2 == 0 || id > l.goAwayLast):
		return // the server ignores it or treats it as an error
	case s == nil:
		l.lastClient = id
		l.opened = true
		flags := uint8(0)
		if ends {
			flags = clientEnded
		} else {
			l.changed = true
		}
		l.streams.add(stream{id: id, flags: flags, toClient: l.initialToClient, toServer: l.initialToServer})
	case ends:
		l.end(s, clientEnded)
	}
}

// clientSetting records one setting of the client's SETTINGS frame.
func (l *ledger) clientSetting(b []byte) {
	if id, value := setting(b); id == settingInitialWindow {
		for i := range l.streams {
			l.streams[i].toClient += value - l.initialToClient
		}
		l.initialToClient = value
		l.changed = true
	}
}

// clientWindowUpdate records that the server may send n bytes more, on stream id
// or, if that is 0, on the connection.
func (l *ledger) clientWindowUpdate(id uint32, n int64) {
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
