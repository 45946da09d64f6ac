package http2conn

import "encoding/binary"

// A ledger is the state of an HTTP/2 connection as the frames of both directions show it: its
// open streams and its flow-control windows. It knows neither time nor locks.
type ledger struct {
	in, out scanner
	streams table

	// How many bytes of DATA the client may be sent and may send: on the
	// connection, and initially on a new stream.
	toClient, toServer               int64
	initialToClient, initialToServer int64

	responding int    // open streams whose response has begun and not ended
	sent       int64  // bytes of DATA sent since responding was last 0
	lastClient uint32 // highest stream opened by the client
	lastServer uint32 // highest stream opened by the server (a push)
	goAwayLast uint32 // highest stream that the server serves after its GOAWAY

	blocks      uint32      // number of header blocks that the client has begun
	clientBlock headerBlock // the client's latest one
	serverBlock headerBlock // the server's latest one
	interims    interims    // among the server's

	greeted bool // the server has sent a frame; the first one is its SETTINGS
	pong    bool // the client has answered our PING

	opened      bool    // the client has opened a stream
	changed     bool    // a stream may have started or stopped waiting for the client
	window      *wait   // the wait for the connection's window; nil until there is one
	closedWaits []*wait // waits of streams that have closed, to be ended by settle
}

// A headerBlock is a HEADERS or PUSH_PROMISE frame and the CONTINUATION frames that follow it.
type headerBlock struct {
	open     bool // it is incomplete
	stream   uint32
	promises bool   // it is the request of a stream that the server is going to push
	ends     bool   // its stream ends with it
	begun    []byte // what has come of it, if it is the server's and comes in several pieces
}

func newLedger() ledger {
	return ledger{
		toClient: defaultWindow, toServer: defaultWindow,
		initialToClient: defaultWindow, initialToServer: defaultWindow,
		goAwayLast: allStreams,
	}
}

// end records that one side has ended s. The stream closes when both have.
func (l *ledger) end(s *stream, side uint8) {
	if side == serverEnded {
		l.responseDone(s)
	}
	s.flags |= side
	if s.is(clientEnded) && s.is(serverEnded) {
		l.close(s)
	} else {
		l.changed = true
	}
}

// close removes s from the open streams. It does nothing if s is nil.
func (l *ledger) close(s *stream) {
	if s == nil {
		return
	}
	l.responseDone(s)
	if s.wait != nil {
		l.closedWaits = append(l.closedWaits, s.wait)
	}
	l.streams.remove(s)
}

// responseDone records the end of a response that had begun. Bytes sent so far do
// not count for responses that begin after the last one has ended.
func (l *ledger) responseDone(s *stream) {
	if !s.is(responded) || s.is(serverEnded) {
		return
	}
	if l.responding--; l.responding > 0 {
		return
	}
	l.sent = 0
	if l.window != nil {
		l.closedWaits, l.window = append(l.closedWaits, l.window), nil
	}
}

// owes reports whether the client still has to send part of the request and has the window for
// it. Once the response has begun, client and server may take turns as they like, so the client
// owes nothing.
func (l *ledger) owes(s *stream) bool {
	return s.flags&(clientEnded|resetting|responded) == 0 && s.toServer > 0 && l.toServer > 0
}

// stalls reports whether the client stalls the response of s. A server sends as
// long as it has data and window, so a window that is used up means that more
// data is waiting.
func (l *ledger) stalls(s *stream) bool {
	return s.flags&(serverEnded|responded|resetting) == responded && s.toClient <= 0
}

// stallsAll is stalls for the window of the connection, which all streams share.
func (l *ledger) stallsAll() bool { return l.responding > 0 && l.toClient <= 0 }

// isOpen reports whether the stream with the given id is open.
func (l *ledger) isOpen(id uint32) bool { return l.streams.find(id) != nil }

// setting returns the fields of a setting in a SETTINGS frame.
func setting(b []byte) (id uint16, value int64) {
	return binary.BigEndian.Uint16(b), int64(binary.BigEndian.Uint32(b[2:]))
}

// increment returns the increment of a WINDOW_UPDATE, or the last stream of a
// GOAWAY.
func increment(b []byte) int64 { return int64(binary.BigEndian.Uint32(b) &^ (1 << 31)) }
