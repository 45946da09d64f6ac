package http2conn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// An oracle is told of whole frames, as they were meant, and keeps the accounts of
// RFC 9113 section 6.9 in the plainest way.
type oracle struct {
	streams            map[uint32]*account
	toClient, toServer int64 // windows of the connection
	initial            [2]int64
	last, left         uint32
	tight              bool // the windows of the connection are used up often
}

type account struct {
	toClient, toServer       int64
	asked, begun, done, cold bool // the request is complete; the response has begun, is; it is reset
}

func newOracle() *oracle {
	return &oracle{
		streams: map[uint32]*account{}, toClient: 65535, toServer: 65535,
		initial: [2]int64{65535, 65535}, left: 1<<31 - 1,
	}
}

func (o *oracle) tidy() {
	for id, a := range o.streams {
		if a.asked && a.done || a.cold || id%2 == 1 && id > o.left {
			delete(o.streams, id)
		}
	}
}

// bytesOf returns a frame.
func bytesOf(kind, flags byte, stream uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// An act is frames, and what they mean once they have come.
type act struct {
	bytes []byte
	means func()
}

// client returns something that a client may send.
func (o *oracle) client(r *rand.Rand) act {
	id, a := o.some(r, func(id uint32, a *account) bool { return !a.asked && id%2 == 1 })
	ends := r.IntN(3) == 0
	flag := map[bool]byte{true: flagEndStream}[ends]
	switch what := r.IntN(9); {
	case what < 2: // a request
		o.last += 2
		id := o.last - 1
		return act{blockOf(r, id, flag, junk(r, 40)), func() {
			if id <= o.left {
				o.streams[id] = &account{toClient: o.initial[0], toServer: o.initial[1], asked: ends}
			}
		}}
	case what == 2:
		value := size(r)
		return act{bytesOf(typeSettings, 0, 0, slices.Concat([]byte{0, 1}, number(7), []byte{0, 4}, number(value), []byte{0, 3}, number(9))), func() {
			for _, a := range o.streams {
				a.toClient += int64(value) - o.initial[0]
			}
			o.initial[0] = int64(value)
		}}
	case what == 3:
		n := 1 + o.increment(r, 100_000)
		return act{bytesOf(typeWindowUpdate, 0, 0, number(n|1<<31)), func() { o.toClient += int64(n) }}
	case what == 4 || a == nil:
		return act{bytesOf([]byte{6, 2, 99}[r.IntN(3)], byte(r.Uint32()), 0, junk(r, 20)), func() {}}
	case what == 5:
		body := upTo(r, a.toServer)
		return act{bytesOf(typeData, flag, id, body), func() {
			o.toServer -= int64(len(body))
			a.toServer -= int64(len(body))
			a.asked = a.asked || ends
		}}
	case what == 6:
		return act{bytesOf(typeReset, 0, id, number(8)), func() { a.cold = true }}
	case what == 7:
		return act{blockOf(r, id, flagEndStream, junk(r, 9)), func() { a.asked = true }} // a trailer
	}
	n := 1 + uint32(r.IntN(1000))
	return act{bytesOf(typeWindowUpdate, 0, id, number(n)), func() { a.toClient += int64(n) }}
}

// server returns something that a server may send.
func (o *oracle) server(r *rand.Rand) act {
	id, a := o.some(r, func(_ uint32, a *account) bool { return !a.done })
	ends := r.IntN(3) == 0
	flag := map[bool]byte{true: flagEndStream}[ends]
	switch what := r.IntN(9); {
	case what == 0:
		value := size(r)
		return act{bytesOf(typeSettings, 0, 0, slices.Concat([]byte{0, 4}, number(value))), func() {
			for _, a := range o.streams {
				a.toServer += int64(value) - o.initial[1]
			}
			o.initial[1] = int64(value)
		}}
	case what == 1:
		n := o.increment(r, 1000)
		return act{bytesOf(typeWindowUpdate, 0, 0, number(n)), func() { o.toServer += int64(n) }}
	case what == 2 || a == nil:
		if a != nil && r.IntN(5) == 0 {
			return act{promiseOf(r, id, junk(r, 40)), func() {}}
		}
		if r.IntN(20) == 0 {
			last := o.last / 2
			return act{bytesOf(typeGoAway, 0, 0, append(number(last), junk(r, 30)...)), func() { o.left = min(o.left, last) }}
		}
		return act{bytesOf([]byte{6, 4}[r.IntN(2)], 1, 0, nil), func() {}}
	case what == 3:
		return act{bytesOf(typeReset, 0, id, number(1)), func() { a.cold = true }}
	case what == 4:
		n := uint32(r.IntN(1000))
		return act{bytesOf(typeWindowUpdate, 0, id, number(n)), func() { a.toServer += int64(n) }}
	case what == 5 && !a.begun:
		return act{blockOf(r, id, 0, []byte("\x48\x82\x08\x01")), func() {}} // 100
	case !a.begun || what == 6:
		return act{blockOf(r, id, flag, []byte("\x88\x61\x96date")), func() { a.begun = true; a.done = a.done || ends }}
	}
	body := upTo(r, a.toClient)
	return act{bytesOf(typeData, flag, id, body), func() {
		o.toClient -= int64(len(body))
		a.toClient -= int64(len(body))
		a.done = a.done || ends
	}}
}

// increment is by how much a window of the connection is opened.
func (o *oracle) increment(r *rand.Rand, most int) uint32 {
	if o.tight {
		most = 150
	}
	return uint32(r.IntN(most))
}

// blockOf is a header block in one or more frames.
func blockOf(r *rand.Rand, id uint32, flags byte, block []byte) []byte {
	return framesOf(r, typeHeaders, id, flags, nil, block)
}

// promiseOf is blockOf for the request of a stream that the server is going to push.
func promiseOf(r *rand.Rand, id uint32, block []byte) []byte {
	return framesOf(r, typePushPromise, id, 0, number(2), block)
}

// framesOf returns a frame of the given kind, which has a prefix and may be padded, and the
// frames that continue its block.
func framesOf(r *rand.Rand, kind byte, id uint32, flags byte, prefix, block []byte) (frames []byte) {
	for {
		n := len(block)
		if n > 0 && r.IntN(3) == 0 {
			n = r.IntN(n)
		} else {
			flags |= flagEndHeaders
		}
		payload := slices.Concat(prefix, block[:n])
		if kind != typeContinuation && r.IntN(3) == 0 {
			flags |= flagPadded
			pad := r.IntN(20)
			payload = slices.Concat([]byte{byte(pad)}, payload, bytes.Repeat([]byte("A"), pad)) // in HPACK, it would add to the table
		}
		frames = append(frames, bytesOf(kind, flags, id, payload)...)
		if flags&flagEndHeaders != 0 {
			return frames
		}
		kind, flags, prefix, block = typeContinuation, flagPadded, nil, block[n:] // this flag has no meaning here
	}
}

// size is that of a window: often a small one, as what matters is its end.
func size(r *rand.Rand) uint32 { return uint32(r.IntN([]int{1, 500, 100_000}[r.IntN(3)])) }

// upTo is a body, often one that uses a window up.
func upTo(r *rand.Rand, window int64) []byte {
	if window > 0 && window < 1000 && r.IntN(2) == 0 {
		return make([]byte, window)
	}
	return junk(r, 300)
}

func junk(r *rand.Rand, most int) []byte {
	b := make([]byte, r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// some returns one of the streams that are ok.
func (o *oracle) some(r *rand.Rand, ok func(uint32, *account) bool) (uint32, *account) {
	var ids []uint32
	for id, a := range o.streams {
		if ok(id, a) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	slices.Sort(ids)
	id := ids[r.IntN(len(ids))]
	return id, o.streams[id]
}

// compare returns where l differs from o.
func (o *oracle) compare(l *ledger) error {
	if len(l.streams) != len(o.streams) || l.toClient != o.toClient || l.toServer != o.toServer {
		return fmt.Errorf("%d streams, windows %d and %d, want %d, %d and %d",
			len(l.streams), l.toClient, l.toServer, len(o.streams), o.toClient, o.toServer)
	}
	all := false
	for id, a := range o.streams {
		s := l.streams.find(id)
		if s == nil || s.toClient != a.toClient || s.toServer != a.toServer {
			return fmt.Errorf("stream %d is %+v, want %+v", id, s, a)
		}
		owes := !a.asked && !a.begun && a.toServer > 0 && o.toServer > 0
		holds := a.begun && !a.done && a.toClient <= 0
		all = all || a.begun && !a.done
		if l.owes(s) != owes || l.stalls(s) != holds {
			return fmt.Errorf("stream %d owes %v and holds up %v, want %v and %v", id, l.owes(s), l.stalls(s), owes, holds)
		}
	}
	if all = all && o.toClient <= 0; l.stallsAll() != all {
		return fmt.Errorf("all are held up: %v, want %v", l.stallsAll(), all)
	}
	return nil
}

// FuzzLedger has two sides exchange frames, in pieces that come at any time, and
// what they are to each other must be what the oracle says.
func FuzzLedger(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		o, l := newOracle(), newLedger()
		if o.tight = r.IntN(2) == 0; o.tight {
			o.toClient, o.toServer = int64(r.IntN(500)), int64(r.IntN(500))
			l.toClient, l.toServer = o.toClient, o.toServer
		}
		last := map[uint32][2]bool{} // what each stream was told to be waiting for
		for range 300 {
			a, side := o.client(r), l.receive
			if r.IntN(2) == 0 {
				a, side = o.server(r), func(b []byte) { l.send(b, nil) }
			}
			for len(a.bytes) > 0 {
				n := 1 + r.IntN(len(a.bytes))
				side(a.bytes[:n])
				a.bytes = a.bytes[n:]
			}
			a.means()
			o.tidy()
			if err := o.compare(&l); err != nil {
				t.Fatal(err)
			}
			// What has changed must have been told.
			for _, s := range l.streams {
				now := [2]bool{l.owes(&s), l.stalls(&s)}
				if now != last[s.id] && !l.changed {
					t.Fatalf("stream %d has come to %v, and nothing has changed", s.id, now)
				}
				last[s.id] = now
			}
			l.changed = false
		}
	})
}

// Padding is not data, however a frame is split.
func TestPaddingIsNotData(t *testing.T) {
	for name, test := range map[string]struct {
		flags   byte
		payload string
		want    int
	}{
		"none":             {0, "data", 4},
		"empty":            {0, "", 0},
		"padded":           {flagPadded, "\x03data123", 4},
		"padded by 0":      {flagPadded, "\x00data", 4},
		"only padding":     {flagPadded, "\x06123456", 0},
		"no length":        {flagPadded, "", 0},
		"more than all of": {flagPadded, "\x50data", 0},
	} {
		t.Run(name, func(t *testing.T) {
			frame := bytesOf(typeData, test.flags, 1, []byte(test.payload))
			for i := range len(frame) + 1 {
				for j := i; j <= len(frame); j++ {
					l := newLedger()
					l.receive(request(1, false))
					for _, part := range [][]byte{frame[:i], frame[i:j], frame[j:]} {
						l.receive(part)
					}
					s := l.streams.find(1)
					if s.received != int64(test.want) || s.toServer != defaultWindow-int64(len(test.payload)) {
						t.Fatalf("split at %d and %d: %d bytes of data, and the window is %d", i, j, s.received, s.toServer)
					}
				}
			}
		})
	}
}

// Which header blocks of a server are interim responses is known, however they are encoded.
func TestInterim(t *testing.T) {
	for name, test := range map[string]struct {
		block string
		want  bool
	}{
		"100":                       {"\x48\x82\x08\x01", true},
		"100, not Huffman":          {"\x48\x03100", true},
		"100, not indexed":          {"\x08\x82\x08\x01", true},
		"100, never indexed":        {"\x1e\x82\x08\x01", true},
		"100, after a new size":     {"\x3f\xe1\x1f\x48\x82\x08\x01", true},
		"103, with a link":          {"\x48\x82\x08\x19\x6d\x03abc", true},
		"200":                       {"\x88", false},
		"204, with a date":          {"\x89\x61\x96", false},
		"201, with a date":          {"\x48\x82\x10\x02\x61\x96date", false},
		"of the table, with a date": {"\xbe\xbf", false},
		"another field with a 1":    {"\x5c\x011", false},
		"nothing":                   {"", false},
		"resized to nothing":        {"\x20", false},
		"half an integer":           {"\xff\x80\x80\x80\x80\x80\x80", false},
		"half a string":             {"\x48\x0310", false},
		"no string":                 {"\x48", false},
		"no name":                   {"\x40\x01", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := new(interims).isInterim([]byte(test.block)); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// It is known whatever an encoder has in its table, also from requests of pushed streams, and however
// its blocks are split and padded.
func TestInterimOfAnEncoder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		l := newLedger()
		send := func(frames []byte) {
			at := r.IntN(len(frames))
			l.send(frames[:at], nil)
			l.send(frames[at:], nil)
		}
		for i := range uint32(200) {
			id := 2*i + 1
			l.receive(request(id, true))
			block.Reset()
			if r.IntN(10) == 0 {
				encoder.SetMaxDynamicTableSize(uint32(r.IntN(4096)))
			}
			if r.IntN(4) == 0 {
				encoder.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
				encoder.WriteField(hpack.HeaderField{Name: ":path", Value: strings.Repeat("/", r.IntN(9))})
				send(promiseOf(r, id, block.Bytes()))
				if l.streams.find(id).is(responded) {
					t.Fatalf("seed %d, block %d: a promise begins the response", seed, i)
				}
				block.Reset()
			}
			status := []string{"100", "102", "103", "200", "201", "404", "418"}[r.IntN(7)]
			encoder.WriteField(hpack.HeaderField{Name: ":status", Value: status, Sensitive: r.IntN(5) == 0})
			for range r.IntN(4) {
				encoder.WriteField(hpack.HeaderField{Name: []string{"link", "age", "date", "x"}[r.IntN(4)], Value: strings.Repeat("1", r.IntN(300))})
			}
			send(blockOf(r, id, 0, block.Bytes()))
			if got := !l.streams.find(id).is(responded); got != (status[0] == '1') {
				t.Fatalf("seed %d, block %d: %s is interim: %v", seed, i, status, got)
			}
			l.receive(bytesOf(typeReset, 0, id, number(8)))
		}
	}
}
