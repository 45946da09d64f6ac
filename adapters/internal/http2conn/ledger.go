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

// isOpen reports whether the stream is.
func (l *ledger) isOpen(id uint32) bool { return l.streams.find(id) != nil }

func setting(b []byte) (id uint16, value int64) {
	return binary.BigEndian.Uint16(b), int64(binary.BigEndian.Uint32(b[2:]))
}

// increment is what a WINDOW_UPDATE says, or which stream a GOAWAY names.
func increment(b []byte) int64 { return int64(binary.BigEndian.Uint32(b) &^ (1 << 31)) }
