package http2conn

import "github.com/idlewheel/idlewheel/idle"

// A stream is the state of an open stream.
type stream struct {
	id    uint32
	flags uint8

	// How many bytes of DATA the client may be sent and may send on this stream.
	toClient, toServer int64

	sent, received int64 // bytes of DATA while wait is nil
	wait           *wait // the wait for the client; nil until there is one

	phase *idle.Phase // its own limits; nil if the limits of all streams apply
}

// Flags of a stream.
const (
	clientEnded = 1 << iota // the request is complete
	serverEnded             // the response is complete
	responded               // the response has begun
	resetting               // it has passed a limit; the server has to reset it
)

func (s *stream) is(mark uint8) bool { return s.flags&mark != 0 }

// A table holds the open streams sorted by id. They are few: net/http allows 250.
// Ids grow, so a new stream usually goes to the end.
type table []stream

// find returns the stream with the given id, or nil if it is not open. The
// pointer is valid until the table changes.
func (t table) find(id uint32) *stream {
	if i := t.search(id); i < len(t) && t[i].id == id {
		return &t[i]
	}
	return nil
}

// search returns the index of the stream with the given id, or the index at which
// it would be inserted.
func (t table) search(id uint32) int {
	low, high := 0, len(t)
	for low < high {
		if middle := (low + high) / 2; t[middle].id < id {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// add inserts a stream.
func (t *table) add(s stream) {
	i := t.search(s.id)
	*t = append(*t, stream{})
	copy((*t)[i+1:], (*t)[i:])
	(*t)[i] = s
}

// remove deletes a stream.
func (t *table) remove(s *stream) {
	i := t.search(s.id)
	last := copy((*t)[i:], (*t)[i+1:]) + i
	(*t)[last] = stream{}
	*t = (*t)[:last]
}
