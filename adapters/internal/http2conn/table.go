package http2conn

// A stream is what is known of an open one.
type stream struct {
	id    uint32
	marks uint8

	// Windows: how many bytes of DATA the client may be sent, and may send.
	toClient, toServer int64

	sent, received int64 // bytes of DATA, until there is a wait to tell of them
	wait           *wait // nil until it is the first time that the client is waited for
}

// Marks of a stream.
const (
	clientEnded = 1 << iota // the request is complete
	serverEnded             // the response is
	responded               // the response has begun
	resetting               // it has timed out, and the server will reset it
)

func (s *stream) is(mark uint8) bool { return s.marks&mark != 0 }

// A table is the open streams, in the order of their ids. There are few: net/http
// allows 250. New ones come last, as ids grow.
type table []stream

// find returns the stream with the id, nil if it is not open. It is valid until
// the table changes.
func (t table) find(id uint32) *stream {
	if i := t.search(id); i < len(t) && t[i].id == id {
		return &t[i]
	}
	return nil
}

// search returns where the stream with the id is, or would be.
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

// add opens a stream.
func (t *table) add(s stream) {
	i := t.search(s.id)
	*t = append(*t, stream{})
	copy((*t)[i+1:], (*t)[i:])
	(*t)[i] = s
}

// remove closes a stream.
func (t *table) remove(s *stream) {
	i := t.search(s.id)
	last := copy((*t)[i:], (*t)[i+1:]) + i
	(*t)[last] = stream{}
	*t = (*t)[:last]
}
