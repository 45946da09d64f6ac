package simserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

func TestHTTP2(t *testing.T)        { runAll2(t, false) }
func TestHTTP2OverTLS(t *testing.T) { runAll2(t, true) }

func runAll2(t *testing.T, secure bool) {
	httpsuite.Identity() // outside of virtual time
	runAll(t, func(w *World, ln net.Listener, l httplimits.Timeouts) (Server, error) {
		return startHTTP2(w, ln, l, secure)
	}, kinds2(secure))
}

// handlerTimeout is the HandlerTimeout of half of the worlds.
const handlerTimeout = 20 * time.Second

func startHTTP2(w *World, ln net.Listener, limits httplimits.Timeouts, secure bool) (Server, error) {
	server := &http.Server{Handler: http.HandlerFunc(w.serveNetHTTP), ErrorLog: quiet, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP2(secure)
	server.Protocols.SetUnencryptedHTTP2(!secure)
	if w.Seed%2 == 0 {
		limits.HandlerTimeout = handlerTimeout
	}
	l, err := idlehttp.Wrap(server, ln, limits)
	if err != nil {
		return Server{}, err
	}
	serve := func() error { return server.Serve(l) }
	if secure {
		server.TLSConfig = httpsuite.ServerTLS()
		serve = func() error { return server.ServeTLS(l, "", "") }
	}
	return Server{
		Serve:    serve,
		Shutdown: func(ctx context.Context, d idle.Drain) error { return idlehttp.Shutdown(ctx, d, l) },
		Stats:    l.Stats,
		Tracker:  l.Tracker(),
	}, nil
}

// A talker is an HTTP/2 client. A goroutine reads its frames.
type talker struct {
	*Client
	secure bool
	nc     net.Conn      // carries plaintext
	pace   time.Duration // how long reading pauses once
	over   chan struct{} // closed when the reader has ended

	writing sync.Mutex
	mute    bool           // if set, write drops all frames
	fields  *hpack.Decoder // used by the reader only

	mu     sync.Mutex
	calls  map[uint32]*call
	lastID uint32
	rested time.Time // when the latest stream ended
	told   bool      // a GOAWAY has arrived
	last   uint32    // the last stream that the GOAWAY accepts
}

// A call is a stream.
type call struct {
	order
	stream uint32
	stalls bool          // the client never opens its window again
	done   chan struct{} // closed when nothing more will arrive for it

	// These belong to the reader until done is closed.
	status  string
	at      time.Time
	got     int
	ended   bool
	reset   bool
	code    uint32
	endedAt time.Time
}

// talk connects. It returns nil if the server no longer accepts.
func talk(c *Client, secure bool) *talker {
	if !c.Dial() {
		return nil
	}
	t := &talker{Client: c, secure: secure, nc: c.Conn, over: make(chan struct{}), calls: map[uint32]*call{}, last: 1<<31 - 1}
	if secure {
		_, config := httpsuite.Identity()
		config.NextProtos = []string{"h2"}
		t.nc = tls.Client(c.Conn, config)
	}
	t.fields = hpack.NewDecoder(4096, nil)
	return t
}

// leave closes the connection.
func (t *talker) leave() {
	t.nc.Close()
	<-t.over
}

// hello sends the preface and starts the reader. Streams begin with the given window.
func (t *talker) hello(window uint32) {
	io.WriteString(t.nc, preface)
	t.write(frame{kind: typeSettings, payload: binary.BigEndian.AppendUint32([]byte{0, settingInitialWindow}, window)})
	go t.read()
}

const usualWindow = 1<<16 - 1

// write writes frames.
func (t *talker) write(frames ...frame) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	for _, f := range frames {
		if t.mute {
			return net.ErrClosed
		}
		if _, err := t.nc.Write(f.bytes()); err != nil {
			return err
		}
	}
	return nil
}

// open begins a request. If it has a body, that has to follow. open returns nil if the connection
// has ended.
func (t *talker) open(o order, body, stalls bool) *call {
	t.mu.Lock()
	select {
	case <-t.over:
		t.mu.Unlock()
		return nil
	default:
	}
	id := t.lastID + 1
	t.lastID += 2
	c := &call{order: o, stream: id, stalls: stalls, done: make(chan struct{})}
	t.calls[id] = c
	t.mu.Unlock()
	f := frame{kind: typeHeaders, flags: flagEndHeaders, stream: id, payload: requestBlock(o.path())}
	if !body {
		f.flags |= flagEndStream
	}
	t.write(f)
	return c
}

// data sends a part of a body.
func (t *talker) data(c *call, n int, last bool) error {
	f := frame{kind: typeData, stream: c.stream, payload: make([]byte, n)}
	if last {
		f.flags = flagEndStream
	}
	return t.write(f)
}

// read reads frames until the connection ends.
func (t *talker) read() {
	err := t.readFrames()
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) &&
		!(t.nc != net.Conn(t.Conn) && errors.Is(err, io.ErrUnexpectedEOF)) { // crypto/tls returns that if no alert came before the end
		t.Errorf("%v: the connection is damaged: %v", t.Conn.LocalAddr(), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.over)
	for id, c := range t.calls {
		close(c.done)
		delete(t.calls, id)
	}
	t.nc.Close()
}

func (t *talker) readFrames() error {
	for n := 0; ; n++ {
		if n == 5 && t.pace > 0 {
			time.Sleep(t.pace)
		}
		f, err := readFrame(t.nc)
		if err != nil {
			return err
		}
		if replies := t.arrived(f); replies != nil {
			go t.write(replies...) // in a goroutine, because the server may be waiting to write, too
		}
	}
}

// arrived records a frame, and returns the replies to it.
func (t *talker) arrived(f frame) []frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[f.stream]
	switch f.kind {
	case typeSettings, typePing:
		if f.flags&flagAck == 0 {
			ack := frame{kind: f.kind, flags: flagAck}
			if f.kind == typePing {
				ack.payload = f.payload
			}
			return []frame{ack}
		}
	case typeGoAway:
		if code := f.number(4); code != 0 {
			t.Errorf("%v: GOAWAY with %d %q", t.Conn.LocalAddr(), code, f.payload)
		}
		t.goAway(f.number(0))
	case typeHeaders:
		block, err := fields(t.fields, f.payload)
		if err != nil {
			t.Errorf("%v: a header block: %v", t.Conn.LocalAddr(), err)
		}
		if c != nil {
			c.status = block[":status"]
			c.at, _ = time.Parse(time.RFC3339Nano, block["at"])
			if c.ended = f.ends(); c.ended {
				t.finish(c)
			}
		}
	case typeData:
		if c != nil {
			if len(bytes.Trim(f.payload, "x\n")) > 0 {
				t.Errorf("%s got %.100q", c.path(), f.payload)
			}
			c.got += len(f.payload)
			if c.ended = f.ends(); c.ended {
				t.finish(c)
			}
		}
		switch n := len(f.payload); {
		case n == 0:
		case c == nil || c.ended || c.stalls:
			return []frame{windowUpdate(0, n)}
		default:
			return []frame{windowUpdate(0, n), windowUpdate(f.stream, n)}
		}
	case typeReset:
		if c != nil {
			c.reset, c.code = true, f.number(0)
			t.finish(c)
		}
	case typeWindowUpdate:
	default:
		t.Errorf("%v: a frame of type %d", t.Conn.LocalAddr(), f.kind)
	}
	return nil
}

// goAway records that the server accepts no streams after last. t.mu must be held.
func (t *talker) goAway(last uint32) {
	t.told, t.last = true, min(t.last, last)
	for id, c := range t.calls {
		if id > t.last {
			if t.Executed(c.id) {
				t.Errorf("%s was executed, but GOAWAY accepts streams up to %d only", c.path(), t.last)
			}
			t.finish(c)
		}
	}
}

// finish records that nothing more will arrive for c. t.mu must be held.
func (t *talker) finish(c *call) {
	t.rested = time.Now()
	c.endedAt = t.rested
	close(c.done)
	delete(t.calls, c.stream)
}

// isTold reports whether the server has asked the client to leave.
func (t *talker) isTold() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// wantResponse checks that a request of an honest client is answered if it was executed.
func (t *talker) wantResponse(c *call) {
	<-c.done
	size := c.size
	if c.kind == "error" {
		size++ // http.Error adds a line feed
	}
	switch {
	case !c.ended && !t.Executed(c.id):
	case c.reset:
		t.Errorf("%s on %v, stream %d, was reset with %d after %d bytes", c.path(), t.Conn.LocalAddr(), c.stream, c.code, c.got)
	case !c.ended:
		t.Errorf("%s on %v, stream %d, was executed and cut after %d bytes (the limit: %v)", c.path(), t.Conn.LocalAddr(), c.stream, c.got, t.End().Err)
	case c.status != strconv.Itoa(statuses[c.kind]) || c.got != size:
		t.Errorf("%s got %s and %d bytes", c.path(), c.status, c.got)
	}
	time.Sleep(time.Nanosecond) // so that a GOAWAY right after the response has arrived
	if drained := t.Drained(); c.ended && !drained.IsZero() && c.at.After(drained) && !t.isTold() {
		t.Errorf("%s was answered %v after the drain, without a GOAWAY", c.path(), c.at.Sub(drained))
	}
}

// exchange makes some requests at the same time. It reports whether the connection can be used again.
func (t *talker) exchange() bool {
	var all []*call
	for range 1 + t.Rand.IntN(3) {
		o := order{t.NextID(), t.Rand.IntN(60_000) &^ 1, time.Duration(t.Rand.IntN(200)) * time.Millisecond, "plain"}
		switch t.Rand.IntN(6) {
		case 0:
			o.kind = "error"
		case 1:
			o.kind = "hints"
		}
		body := t.Rand.IntN(2) * t.Rand.IntN(3000)
		c := t.open(o, body > 0, false)
		if c == nil {
			break
		}
		all = append(all, c)
		for ; body > 0; t.Pause(100) {
			n := 1 + t.Rand.IntN(body)
			body -= n
			t.data(c, n, body == 0)
		}
	}
	for _, c := range all {
		t.wantResponse(c)
	}
	select {
	case <-t.over:
		return false
	default:
		return len(all) > 0 && !t.isTold()
	}
}
