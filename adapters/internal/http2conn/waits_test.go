package http2conn

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// request returns the header of a request that has a body, or ends.
func request(id uint32, ends bool) []byte {
	flags := byte(flagEndHeaders)
	if ends {
		flags |= flagEndStream
	}
	return bytesOf(typeHeaders, flags, id, []byte("\x83"))
}

// response returns the header of a response, which goes on.
func response(id uint32) []byte {
	return bytesOf(typeHeaders, flagEndHeaders, id, []byte("\x88\x61\x96date"))
}

// settled has c wait for what the ledger says, and returns how many waits are tracked.
func settled(c *Conn, h *fakeHost) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	return h.tracker.Stats().Live
}

// resetsAfter returns how many streams have been reset a while later.
func resetsAfter(d time.Duration, h *fakeHost) int {
	time.Sleep(d)
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.resets
}

// Streams are tracked while the client is waited for, and no longer.
func TestTrackingEnds(t *testing.T) {
	begin := func(c *Conn) {
		c.receive(request(1, false))
		c.receive(request(3, false))
		c.receive(request(5, true))
		c.send(response(5), nil)
		c.toClient = 0
	}
	rig(t, func(t *testing.T, _ net.Conn, c *Conn, h *fakeHost) {
		begin(c)
		if n := settled(c, h); n != 3 {
			t.Errorf("%d waits, want those for two bodies and for the window of the connection", n)
		}
		c.receive(bytesOf(typeReset, 0, 3, number(8)))
		if n := settled(c, h); n != 2 {
			t.Errorf("%d waits when one of the streams is closed", n)
		}
		c.receive(bytesOf(typeReset, 0, 5, number(8)))
		if n := settled(c, h); n != 1 {
			t.Errorf("%d waits when there is no response any more", n)
		}
	})
	rig(t, func(t *testing.T, _ net.Conn, c *Conn, h *fakeHost) {
		begin(c)
		settled(c, h)
		c.receive(bytesOf(typeReset, 0, 3, number(8)))
		c.End()
		if n := h.tracker.Stats().Live; n != 0 {
			t.Errorf("%d waits after the end", n)
		}
		c.receive(request(7, false))
		if n := settled(c, h); n != 0 {
			t.Errorf("%d waits that began after the end", n)
		}
	})
}

// What a server writes while nobody reads begins no wait.
func TestNothingIsAwaitedWhileNobodyReads(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		go io.Copy(io.Discard, client)
		go client.Write(request(1, false))
		io.ReadFull(c, make([]byte, len(request(1, false))))
		c.Write(bytesOf(6, 1, 0, make([]byte, 8)))
		if n := h.tracker.Stats().Live; n != 0 {
			t.Errorf("%d waits", n)
		}
	})
}

// Bytes pay for the minimum rate whether they come before the client is waited for or
// after that; those of responses that are over pay for no later ones.
func TestBytesPay(t *testing.T) {
	const rate, pays = 100, 5 * time.Second
	data := func(id uint32) []byte { return bytesOf(typeData, 0, id, make([]byte, int(pays/time.Second)*rate)) }
	respond := func(c *Conn, id uint32) {
		c.receive(request(id, true))
		c.send(response(id), nil)
	}
	for name, test := range map[string]struct {
		begin func(c *Conn)
		after func(c *Conn) // the client is waited for
		pays  bool
	}{
		"no body":     {func(c *Conn) { c.receive(request(1, false)) }, nil, false},
		"body before": {func(c *Conn) { c.receive(request(1, false)); c.receive(data(1)) }, nil, true},
		"body after":  {func(c *Conn) { c.receive(request(1, false)) }, func(c *Conn) { c.receive(data(1)) }, true},
		"no response": {func(c *Conn) { respond(c, 1); c.streams.find(1).toClient = 0 }, nil, false},
		"response before": {func(c *Conn) {
			respond(c, 1)
			c.streams.find(1).toClient = 500
			c.send(data(1), nil)
		}, nil, true},
		"response after": {func(c *Conn) { respond(c, 1); c.streams.find(1).toClient = 0 }, func(c *Conn) { c.send(data(1), nil) }, true},
		"window before":  {func(c *Conn) { respond(c, 1); c.toClient = 500; c.send(data(1), nil) }, nil, true},
		"window after":   {func(c *Conn) { respond(c, 1); c.toClient = 0 }, func(c *Conn) { c.send(data(1), nil) }, true},
		"another response": {func(c *Conn) {
			respond(c, 1)
			c.toClient = 500
			c.send(data(1), nil)
			c.send(bytesOf(typeData, flagEndStream, 1, nil), nil)
			respond(c, 3)
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			limits := idle.Rate{BytesPerSecond: rate, Grace: time.Second}
			rigOf(t, idle.Policy{MinReadRate: limits, MinWriteRate: limits}, func(t *testing.T, _ net.Conn, c *Conn, h *fakeHost) {
				test.begin(c)
				if n := settled(c, h); n != 1 {
					t.Fatalf("%d waits", n)
				}
				if test.after != nil {
					c.mu.Lock()
					test.after(c)
					c.mu.Unlock()
				}
				if lives := resetsAfter(3*time.Second, h) == 0; lives != test.pays {
					t.Errorf("after 3s it lives: %v", lives)
				}
				if n := resetsAfter(pays, h); n != 1 {
					t.Errorf("%d resets in the end", n)
				}
			})
		})
	}
}

// Input that the kernel has, and the server has not read, averts a reset once.
func TestUnreadInput(t *testing.T) {
	rig(t, func(t *testing.T, _ net.Conn, c *Conn, h *fakeHost) {
		h.unread = true
		c.receive(request(1, false))
		settled(c, h)
		if resetsAfter(1500*time.Millisecond, h) != 0 {
			t.Error("reset though there is unread input")
		}
		if n := resetsAfter(time.Second, h); n != 1 {
			t.Errorf("%d resets though nobody reads", n)
		}
	})
}

// A client whose window is used up owes nothing, and does again when it is opened.
func TestWaitBeginsAgain(t *testing.T) {
	rig(t, func(t *testing.T, _ net.Conn, c *Conn, h *fakeHost) {
		c.receive(request(1, false))
		c.streams.find(1).toServer = 10
		settled(c, h)
		c.receive(bytesOf(typeData, 0, 1, make([]byte, 10)))
		settled(c, h)
		if resetsAfter(5*time.Second, h) != 0 {
			t.Error("reset though it may not send")
		}
		c.send(bytesOf(typeWindowUpdate, 0, 1, number(10)), nil)
		settled(c, h)
		if n := resetsAfter(2*time.Second, h); n != 1 {
			t.Errorf("%d resets though it may send", n)
		}
	})
}

// Of a stream that is to be reset nothing is awaited.
func TestResetIsAwaitedOnce(t *testing.T) {
	l := newLedger()
	l.receive(request(1, false))
	l.receive(request(3, true))
	l.send(response(3), nil)
	l.streams.find(3).toClient = 0
	if !l.owes(l.streams.find(1)) || !l.stalls(l.streams.find(3)) {
		t.Error("nothing is awaited of the client")
	}
	for i := range l.streams {
		l.streams[i].flags |= resetting
	}
	if l.owes(l.streams.find(1)) || l.stalls(l.streams.find(3)) {
		t.Error("something is awaited of streams that are to be reset")
	}
}

// A stream that has been closed by the time that its reset can be told is not reset, and
// a reset of the server's own after its response has the server's code.
func TestResetComesTooLate(t *testing.T) {
	c := New(nil, nil)
	c.receive(request(1, false))
	c.streams.find(1).flags |= resetting
	c.resets = []uint32{1}
	c.receive(bytesOf(typeReset, 0, 1, number(8)))
	if c.nextReset(); len(c.injected) > 0 {
		t.Errorf("the server is told %q of a closed stream", c.injected)
	}
	c.receive(request(3, false))
	c.send(bytesOf(typeHeaders, flagEndHeaders|flagEndStream, 3, []byte("\x88\x61\x96date")), nil)
	c.streams.find(3).flags |= resetting
	own := bytesOf(typeReset, 0, 3, number(0))
	if got, _ := c.outgoing(own); !bytes.Equal(got, own) {
		t.Error("a reset after the response has another code")
	}
}

// Frames of streams that are closed, or cannot be, begin none.
func TestStrayFrames(t *testing.T) {
	l := newLedger()
	begins := func(what string, side func([]byte), b []byte, want ...uint32) {
		t.Helper()
		side(b)
		var open []uint32
		for _, s := range l.streams {
			open = append(open, s.id)
		}
		if len(open) != len(want) {
			t.Errorf("%s: open are %v, want %v", what, open, want)
		}
	}
	server := func(b []byte) { l.send(b, nil) }
	begins("requests", l.receive, append(request(1, false), request(5, false)...), 1, 5)
	begins("reset", l.receive, bytesOf(typeReset, 0, 1, number(8)), 5)
	begins("closed", l.receive, request(1, false), 5)
	begins("skipped", l.receive, request(3, false), 5)
	begins("even", l.receive, request(8, false), 5)
	begins("response to a closed one", server, response(1), 5)
	begins("pushed", server, response(2), 2, 5)
	begins("pushed is reset", server, bytesOf(typeReset, 0, 2, number(8)), 5)
	begins("pushed again", server, response(2), 5)
	begins("GOAWAY with debug data", server, bytesOf(typeGoAway, 0, 0, append(number(5), make([]byte, 8)...)), 5)
	begins("after GOAWAY", l.receive, request(7, false), 5)
	begins("reserved bit", l.receive, bytesOf(typeReset, 0, 5|1<<31, number(8)))
}
