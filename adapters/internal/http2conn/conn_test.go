package http2conn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A fakeHost has a tracker for streams, and notes what it is told.
type fakeHost struct {
	tracker *idle.Tracker
	mu      sync.Mutex
	states  []State
	resets  int
	unread  bool
	always  bool
}

func (h *fakeHost) Enter(s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, s)
}

func (h *fakeHost) Track(c *idle.Conn, o any, _ bool) error {
	return h.tracker.Track(c, o, Hooks(false))
}
func (h *fakeHost) Opened()                               {}
func (h *fakeHost) LimitsStreams() bool                   { return h.always }
func (h *fakeHost) Unread() bool                          { return h.unread }
func (h *fakeHost) OnTimeout(err *idle.TimeoutError) bool { return false }

func (h *fakeHost) Reset(_ *idle.TimeoutError, streams int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resets += streams
}

// rig runs a test of a Conn in virtual time, in which streams have a second.
func rig(t *testing.T, test func(t *testing.T, client net.Conn, c *Conn, h *fakeHost)) {
	t.Helper()
	rigOf(t, idle.Policy{ReadTimeout: time.Second, WriteTimeout: time.Second}, test)
}

// rigOf is rig with other limits of streams.
func rigOf(t *testing.T, p idle.Policy, test func(t *testing.T, client net.Conn, c *Conn, h *fakeHost)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		h := &fakeHost{tracker: tracker}
		here, there := net.Pipe()
		c := New(there, h)
		test(t, here, c, h)
		here.Close()
		c.Close()
		c.End()
	})
}

// serve reads frames as a server does, and writes them to w.
func serve(w io.Writer, c *Conn) error {
	for {
		var head [9]byte
		if n, err := io.ReadFull(c, head[:]); err != nil {
			w.Write(head[:n])
			if err == io.EOF {
				return nil
			}
			return err
		}
		payload := make([]byte, parse(head).length)
		n, err := io.ReadFull(c, payload)
		w.Write(append(head[:], payload[:n]...))
		if err != nil {
			return err
		}
	}
}

// tells is what a server is told to reset a stream.
func tells(id uint32) []byte { return bytesOf(typeWindowUpdate, 0, id, number(0)) }

// The server is told to reset a stream between two frames of the client's that are
// not of one header, wherever the client stops.
func TestResetIsToldBetweenFrames(t *testing.T) {
	request := bytesOf(typeHeaders, flagEndHeaders, 1, []byte("\x83"))
	frames := [][]byte{
		bytesOf(6, 0, 0, make([]byte, 8)),
		slices.Concat(bytesOf(typeHeaders, flagEndStream, 3, []byte("\x82")), bytesOf(typeContinuation, flagEndHeaders, 3, []byte("\x87\x84"))),
		bytesOf(99, 0, 0, nil),
	}
	all, boundaries := slices.Concat(frames...), []int{0}
	for _, f := range frames {
		boundaries = append(boundaries, boundaries[len(boundaries)-1]+len(f))
	}
	for stop := range len(all) + 1 {
		rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
			var got bytes.Buffer
			read := make(chan error, 1)
			go func() { read <- serve(&got, c) }()
			client.Write(request)
			client.Write(all[:stop])
			time.Sleep(2 * time.Second) // it is ended
			client.Write(all[stop:])
			synctest.Wait()
			client.Close()
			if err := <-read; err != nil {
				t.Errorf("reading fails with %v", err)
			}
			at := boundaries[slices.IndexFunc(boundaries, func(at int) bool { return at >= stop })]
			want := slices.Concat(request, all[:at], tells(1), all[at:])
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("stopped after %d of %d, the server gets\n%q, want\n%q", stop, len(all), got.Bytes(), want)
			}
			if h.resets != 1 {
				t.Errorf("%d resets", h.resets)
			}
		})
	}
}

// While a response is being written, the reader may already wait for the next request. That
// wait doesn't count as one before the request of this response.
func TestKeepAliveEndsWithItsRequest(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		get := bytesOf(typeHeaders, flagEndHeaders|flagEndStream, 1, []byte("\x82"))
		go client.Write(get)
		io.ReadFull(c, make([]byte, len(get)))
		go c.Write(bytesOf(typeHeaders, flagEndHeaders|flagEndStream, 1, []byte("\x88")))
		synctest.Wait() // the client doesn't read
		go c.Read(make([]byte, 1))
		synctest.Wait()
		if want := []State{KeepAlive, Streams}; !slices.Equal(h.states, want) {
			t.Errorf("while the response is being written: %v, want %v", h.states, want)
		}
		go io.Copy(io.Discard, client)
		synctest.Wait()
		if want := []State{KeepAlive, Streams, KeepAlive}; !slices.Equal(h.states, want) {
			t.Errorf("after that: %v, want %v", h.states, want)
		}
	})
}

// The code of a reset that was asked for is CANCEL, however the server's writes are
// split; that of any other is the server's.
func TestResetHasAnotherCode(t *testing.T) {
	ping := bytesOf(6, 1, 0, make([]byte, 8))
	sent := slices.Concat(ping, bytesOf(typeReset, 0, 1, number(1)), ping, bytesOf(typeReset, 0, 3, number(1)))
	want := slices.Concat(ping, bytesOf(typeReset, 0, 1, number(codeCancel)), ping, bytesOf(typeReset, 0, 3, number(1)))
	for i := range sent {
		for j := i; j < len(sent); j++ {
			c := New(nil, nil)
			for _, id := range []uint32{1, 3} {
				c.receive(bytesOf(typeHeaders, flagEndHeaders, id, []byte("\x83")))
			}
			c.streams.find(1).flags |= resetting
			before := slices.Clone(sent)
			var got []byte
			for _, part := range [][]byte{sent[:i], sent[i:j], sent[j:]} {
				b, _ := c.outgoing(part)
				got = append(got, b...)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("split at %d and %d, it sends\n%q, want\n%q", i, j, got, want)
			}
			if !bytes.Equal(sent, before) {
				t.Fatal("what was written has been changed")
			}
		}
	}
}

// The host is told of the state that the connection waits in.
func TestStates(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		go serve(io.Discard, c)
		go io.Copy(io.Discard, client)
		for _, step := range []struct {
			from io.Writer
			b    []byte
			want State
		}{
			{client, nil, KeepAlive},
			{client, bytesOf(6, 0, 0, make([]byte, 8)), KeepAlive},
			{client, bytesOf(typeHeaders, flagEndStream, 1, nil), Header},
			{client, bytesOf(typeContinuation, flagEndHeaders, 1, []byte("\x82")), Streams},
			{client, bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 3, nil), Streams},
			{client, bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 5, []byte("\x82"))[:9], Header},
			{client, []byte("\x82"), Streams},
			{c, bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 1, []byte("\x88")), Streams},
			{c, bytesOf(typeReset, 0, 3, number(1)), Streams},
			{client, bytesOf(typeReset, 0, 5, number(1)), KeepAlive},
		} {
			step.from.Write(step.b)
			synctest.Wait()
			if got := h.states[len(h.states)-1]; got != step.want {
				t.Errorf("after %q the state is %d, want %d", step.b, got, step.want)
			}
		}
	})
}

// TestStatesBeginAnew has a state follow one of the same kind: a request, the wait after a request that was
// answered at once, a header after a header. Its limit starts over, even while nobody reads.
func TestStatesBeginAnew(t *testing.T) {
	header := bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 1, []byte("\x82"))
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		go io.Copy(io.Discard, client)
		go client.Write(header)
		io.ReadFull(c, make([]byte, len(header)))
		c.Write(bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 1, []byte("\x88")))
		go c.Read(make([]byte, 1))
		synctest.Wait()
		if want := []State{KeepAlive, Streams, KeepAlive}; !slices.Equal(h.states, want) {
			t.Errorf("a request: the states are %d, want %d", h.states, want)
		}
	})
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		go serve(io.Discard, c)
		next := bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 3, []byte("\x82"))
		for _, b := range [][]byte{header[:9], append(header[9:], next[:9]...), next[9:]} {
			client.Write(b)
			synctest.Wait()
		}
		if want := []State{KeepAlive, Header, Streams, Header, Streams}; !slices.Equal(h.states, want) {
			t.Errorf("headers: the states are %d, want %d", h.states, want)
		}
	})
}

// The wait for the next request begins when the last response has been written, though
// the client sends something meanwhile.
func TestWaitBeginsAfterTheResponse(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		go serve(io.Discard, c)
		client.Write(bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 1, []byte("\x82")))
		synctest.Wait()
		response := bytesOf(typeHeaders, flagEndStream|flagEndHeaders, 1, []byte("\x88"))
		go c.Write(response)
		synctest.Wait()
		client.Write(bytesOf(6, 0, 0, make([]byte, 8)))
		synctest.Wait()
		if got := h.states[len(h.states)-1]; got != Streams {
			t.Errorf("while the response is written the state is %d", got)
		}
		io.ReadFull(client, make([]byte, len(response)))
		synctest.Wait()
		if got := h.states[len(h.states)-1]; got != KeepAlive {
			t.Errorf("when it has been, the state is %d", got)
		}
	})
}

// What the server writes between two requests, such as the answer to a PING, doesn't restart the
// wait for the next one.
func TestWritesBetweenRequestsAreNoUse(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		ping := bytesOf(6, 0, 0, make([]byte, 8))
		go client.Write(ping)
		io.ReadFull(c, make([]byte, len(ping)))
		go c.Write(bytesOf(6, 1, 0, make([]byte, 8)))
		synctest.Wait() // the client doesn't read
		go c.Read(make([]byte, 1))
		synctest.Wait()
		go io.Copy(io.Discard, client)
		synctest.Wait()
		if want := []State{KeepAlive}; !slices.Equal(h.states, want) {
			t.Errorf("the states are %d, want %d", h.states, want)
		}
	})
}

// Deadlines of the server's own are kept, also by a reader that has been woken up.
func TestOwnDeadline(t *testing.T) {
	rig(t, func(t *testing.T, client net.Conn, c *Conn, h *fakeHost) {
		begun := time.Now()
		c.SetReadDeadline(begun.Add(5 * time.Second))
		go client.Write(bytesOf(typeHeaders, flagEndHeaders, 1, []byte("\x83")))
		got := make([]byte, 10+len(tells(1)))
		if _, err := io.ReadFull(c, got); err != nil || time.Since(begun) > 2*time.Second {
			t.Errorf("reading what tells of a reset: %v after %v", err, time.Since(begun))
		}
		_, err := c.Read(got)
		var timeout net.Error
		if took := time.Since(begun); took != 5*time.Second || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("reading fails after %v with %v", took, err)
		}
	})
}
