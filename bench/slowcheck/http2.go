package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func http2Cases() []slowCase {
	h2 := func(name, does, limit, needs string, run func(p *peer)) slowCase {
		return slowCase{Name: "h2-" + name, Does: does, Limit: limit, needs: needs, run: run}
	}
	upload := func(name, does, limit string, frame func(f *http2.Framer) error) slowCase {
		return h2(name, does, limit, "post", hello(func(p *peer) {
			p.slow()
			p.open("POST", p.post, 1, false)
			p.frames(frame)
		}))
	}
	// An answer is asked for with a window of 0, and then a frame follows after each pause.
	answer := func(name, does, limit string, frame func(f *http2.Framer) error) slowCase {
		return h2(name, does, limit, "large", hello(func(p *peer) {
			p.slow()
			p.open("GET", p.large, 1, true)
			p.frames(frame)
		}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	}
	ping := func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) }
	none := func(f *http2.Framer) error { return nil }
	return []slowCase{
		h2("no-preface", "sends nothing", handshake, "", nothing),
		h2("preface-stops", "sends the preface, and no SETTINGS", keepAlive, "", say(http2.ClientPreface)),
		h2("no-stream", "opens no stream", keepAlive, "", hello(nothing)),
		h2("idle", "makes a request, and never another", keepAlive, "", hello(func(p *peer) {
			p.slow()
			p.open("GET", p.get, 1, true)
		})),
		h2("pings", "opens no stream, and sends PINGs", keepAlive, "", hello(func(p *peer) { p.frames(ping) })),
		h2("header-trickle", "sends CONTINUATION frames without an end", header, "", hello(func(p *peer) {
			p.frame(func(f *http2.Framer) error { // a header that has begun
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: p.block(true, ":method", "GET", ":path", p.get)})
			})
			p.frames(func(f *http2.Framer) error { return f.WriteContinuation(1, false, p.block(false, "x", "x")) })
		})),
		upload("body-stops", "opens a stream for a body, and sends nothing of it", body, none),
		upload("body-trickle", "sends a body in frames of one byte", bodyRate, func(f *http2.Framer) error { return f.WriteData(1, false, []byte("x")) }),
		upload("body-padding", "sends DATA that is only padding", body, func(f *http2.Framer) error { return f.WriteDataPadded(1, false, nil, make([]byte, 200)) }),
		h2("streams-left", "opens 50 streams for bodies, and leaves them", body, "post", hello(func(p *peer) {
			p.slow()
			for i := range uint32(50) {
				p.open("POST", p.post, 1+2*i, false)
			}
		})),
		answer("window-closed", "asks for something large with a window of 0", write, none),
		answer("window-bytes", "asks for something large, and opens the window by a byte each second", writeRate, func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) }),
	}
}

// hello is a case that greets the server first, and waits for its SETTINGS. A server may
// count from the handshake, so the client is slow from then on, unless the case makes a
// request. The preface and the SETTINGS go together, as others send them.
func hello(run func(p *peer), settings ...http2.Setting) func(p *peer) {
	return func(p *peer) {
		greeting := bytes.NewBufferString(http2.ClientPreface)
		http2.NewFramer(greeting, nil).WriteSettings(settings...)
		p.send(greeting.String())
		select {
		case <-p.settled:
		case <-time.After(min(10*time.Second, p.giveUp/2)):
		case <-p.gone:
			p.refused = "the server has closed the connection before its SETTINGS"
			return
		}
		p.frame((*http2.Framer).WriteSettingsAck)
		run(p)
	}
}

// frame writes a frame. If that fails the connection has ended, which reading finds out.
func (p *peer) frame(write func(*http2.Framer) error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	write(p.h2)
}

// frames writes a frame after each pause.
func (p *peer) frames(write func(*http2.Framer) error) {
	for p.rest(pause) {
		p.frame(write)
	}
}

// block returns a header block, with the fields of a request if it is the first one.
func (p *peer) block(first bool, pairs ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	if first {
		pairs = append([]string{":scheme", p.scheme, ":authority", p.host}, pairs...)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// open makes a request on a stream. A body follows unless it is whole.
func (p *peer) open(method, path string, id uint32, whole bool) {
	p.frame(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: whole, BlockFragment: p.block(true, ":method", method, ":path", path)})
	})
}

// readFrames reads until the server has ended the connection, or the stream that the case is
// about. It answers PINGs.
func (p *peer) readFrames() {
	last, settled := "", false
	for {
		f, err := p.h2.ReadFrame()
		if err != nil {
			p.end(strings.TrimSpace(last + " " + endOf(err)))
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && !settled {
				settled = true
				close(p.settled)
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				p.frame(func(w *http2.Framer) error { return w.WritePing(true, f.Data) })
			}
		case *http2.GoAwayFrame:
			last = "GOAWAY " + f.ErrCode.String()
		case *http2.RSTStreamFrame:
			p.end(fmt.Sprintf("RST_STREAM %v", f.ErrCode))
		}
	}
}
