package http2conn

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

// requestArrives notes a complete header block of the client's. It begins a stream,
// or is the trailer of one.
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
