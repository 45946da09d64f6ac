package slow

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func http2Cases() []Case {
	post := need("post", func(t *Target) string { return t.Post })
	large := need("large", func(t *Target) string { return t.Large })
	get := need("get", func(t *Target) string { return t.Get })
	h2 := func(name, does, limit string, needs func(*Target) string, run func(p *peer) error) Case {
		return Case{Name: "h2-" + name, Protocol: "h2", Does: does, Limit: limit, needs: needs, run: run}
	}
	honest := func(c Case) Case { c.Control = true; return c }
	harmless := func(c Case) Case { c.Harmless = true; return c }
	// hello is what a client says first, and then it does something.
	hello := func(run func(p *peer) error, settings ...http2.Setting) func(p *peer) error {
		return func(p *peer) error {
			p.hello(settings...)
			p.slow()
			return run(p)
		}
	}
	uploads := func(each func(p *peer)) func(p *peer) error {
		return hello(func(p *peer) error {
			p.request("POST", p.Post, false)
			for p.rest(pause) {
				each(p)
			}
			return nil
		})
	}
	return []Case{
		h2("no-preface", "sends nothing", "of a handshake", get, nothing),
		h2("preface-stops", "sends the preface, and no SETTINGS", "of a handshake", get, say(http2.ClientPreface)),
		h2("settings-unacknowledged", "acknowledges no SETTINGS, and opens no stream", "of a handshake, or of keep-alive", get, func(p *peer) error {
			p.rude = true
			p.send(http2.ClientPreface)
			p.frame(func(f *http2.Framer) error { return f.WriteSettings() })
			return nil
		}),
		h2("no-stream", "opens no stream", "of keep-alive", get, hello(nothing)),
		h2("idle", "makes a request, and never another", "of keep-alive", get, hello(func(p *peer) error {
			p.request("GET", p.Get, true)
			p.rest(2 * time.Second)
			p.slow()
			return nil
		})),
		h2("pings", "opens no stream, and sends a PING each second", "of keep-alive", get, hello(func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) })
		})),
		h2("settings", "opens no stream, and sends SETTINGS each second", "of keep-alive", get, hello(func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WriteSettings() })
		})),
		h2("priorities", "opens no stream, and sends a PRIORITY each second", "of keep-alive", get, hello(func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WritePriority(3, http2.PriorityParam{Weight: 1}) })
		})),
		h2("goaway", "says GOAWAY, and stays", "of keep-alive", get, hello(func(p *peer) error {
			p.frame(func(f *http2.Framer) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) })
			return nil
		})),
		h2("header-stops", "sends HEADERS without an end", "of a header", get, hello(func(p *peer) error {
			p.headers("GET", p.Get, false, true)
			return nil
		})),
		h2("header-trickle", "sends CONTINUATION frames without an end", "of a header, in all", get, hello(func(p *peer) error {
			p.headers("GET", p.Get, false, true)
			return p.frames(func(f *http2.Framer) error { return f.WriteContinuation(1, false, p.block(false, "x", "x")) })
		})),
		h2("body-stops", "sends the beginning of a body", "of a body", post, hello(func(p *peer) error {
			p.request("POST", p.Post, false)
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, []byte("beginning")) })
			return nil
		})),
		h2("body-trickle", "sends a body, a byte in a frame", "the minimum rate of a body, or its total", post, uploads(func(p *peer) {
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, []byte("x")) })
		})),
		h2("body-empty", "sends empty DATA", "of a body", post, uploads(func(p *peer) {
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, nil) })
		})),
		h2("body-padding", "sends DATA that is only padding", "of a body", post, uploads(func(p *peer) {
			p.frame(func(f *http2.Framer) error { return f.WriteDataPadded(1, false, nil, make([]byte, 200)) })
		})),
		h2("body-never", "opens a stream for a body, and sends PINGs", "of a body", post, uploads(func(p *peer) {
			p.frame(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) })
		})),
		h2("streams-left", "opens 50 streams for bodies, and leaves them", "of a body", post, hello(func(p *peer) error {
			for i := range uint32(50) {
				p.open("POST", p.Post, 1+2*i, false)
			}
			return nil
		})),
		harmless(h2("resets", "opens and resets a stream each second", "a bound on resets, or none: a reset costs little at that rate", get, hello(func(p *peer) error {
			for id := uint32(1); p.rest(pause); id += 2 {
				p.open("GET", p.Get, id, true)
				p.frame(func(f *http2.Framer) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) })
			}
			return nil
		}))),
		h2("window-closed", "asks for something large with a window of 0", "of a pause in an answer", large, hello(func(p *peer) error {
			p.request("GET", p.Large, true)
			return nil
		}, noWindow)),
		h2("window-closed-pings", "asks for something large with a window of 0, and sends PINGs", "of a pause in an answer", large, hello(func(p *peer) error {
			p.request("GET", p.Large, true)
			return p.frames(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) })
		}, noWindow)),
		h2("window-bytes", "asks for something large, and opens the window by a byte each second", "the minimum rate of an answer, or its total", large, hello(func(p *peer) error {
			p.request("GET", p.Large, true)
			return p.frames(func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) })
		}, noWindow)),
		h2("window-of-connection", "takes 64 kB, and then opens the window of the connection by a byte each second", "the minimum rate of an answer, or its total", large, hello(func(p *peer) error {
			p.request("GET", p.Large, true)
			p.rest(2 * time.Second)
			p.slow()
			return p.frames(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) })
		}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})),

		honest(h2("slow-upload", "sends 2,000 bytes a second for 20 s", "a phone in a train is no attacker", post, hello(func(p *peer) error {
			p.request("POST", p.Post, false)
			for i := range 40 {
				p.frame(func(f *http2.Framer) error { return f.WriteData(1, i == 39, bytes.Repeat([]byte("x"), 1000)) })
				if !p.rest(time.Second / 2) {
					return errGone
				}
			}
			return p.mustBeAnswered()
		}))),
		honest(h2("bursts", "takes something large by 256 kB every 2 s", "a player fills its buffer so", large, hello(func(p *peer) error {
			p.request("GET", p.Large, true)
			for range 8 {
				p.frame(func(f *http2.Framer) error {
					return errors.Join(f.WriteWindowUpdate(0, 256<<10), f.WriteWindowUpdate(1, 256<<10))
				})
				if !p.rest(2 * time.Second) {
					return errGone
				}
			}
			p.frame(func(f *http2.Framer) error {
				return errors.Join(f.WriteWindowUpdate(0, 1<<30), f.WriteWindowUpdate(1, 1<<30))
			})
			return p.mustBeAnswered()
		}))),
		honest(h2("comes-back", "makes a request every 4 s over one connection", "that is what keep-alive is for", get, hello(func(p *peer) error {
			for i := range uint32(5) {
				p.open("GET", p.Get, 1+2*i, true)
				if err := p.mustBeAnswered(); err != nil {
					return err
				}
				if !p.rest(4 * time.Second) {
					return errGone
				}
			}
			return nil
		}))),
	}
}

var noWindow = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}

// frame writes a frame. If that fails the connection has ended, which reading finds out.
func (p *peer) frame(write func(*http2.Framer) error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	write(p.h2)
}

// frames writes a frame each second.
func (p *peer) frames(write func(*http2.Framer) error) error {
	for p.rest(pause) {
		p.frame(write)
	}
	return nil
}

// hello sends the preface and the first SETTINGS, and waits for those of the server. A header
// that has begun must not be interrupted by their acknowledgement.
func (p *peer) hello(settings ...http2.Setting) {
	p.send(http2.ClientPreface)
	p.frame(func(f *http2.Framer) error { return f.WriteSettings(settings...) })
	select {
	case <-p.settled:
	case <-time.After(2 * time.Second):
	case <-p.gone:
	}
}

// block returns a header block, with the fields of a request if it is the first one.
func (p *peer) block(first bool, pairs ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	if first {
		e.WriteField(hpack.HeaderField{Name: ":scheme", Value: p.Scheme})
		e.WriteField(hpack.HeaderField{Name: ":authority", Value: p.Host})
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// request makes a request on stream 1.
func (p *peer) request(method, path string, whole bool) { p.open(method, path, 1, whole) }

// open makes a request on a stream. A body follows unless it is whole.
func (p *peer) open(method, path string, id uint32, whole bool) {
	p.frame(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: whole, BlockFragment: p.block(true, ":method", method, ":path", path)})
	})
}

// headers begins a header on stream 1 without ending it.
func (p *peer) headers(method, path string, endHeaders, endStream bool) {
	p.frame(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: endHeaders, EndStream: endStream, BlockFragment: p.block(true, ":method", method, ":path", path)})
	})
}

// readFrames reads until the server has ended the connection, or the stream that the case is
// about. SETTINGS and PINGs are acknowledged. Only what comes after the client has become slow
// ends a case.
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
			if f.IsAck() || p.rude {
				continue
			}
			p.frame(func(f *http2.Framer) error { return f.WriteSettingsAck() })
			if !settled {
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
		case *http2.HeadersFrame:
			p.noteEnd(f.StreamEnded())
		case *http2.DataFrame:
			p.noteEnd(f.StreamEnded())
		}
	}
}

// noteEnd notes that a stream was answered.
func (p *peer) noteEnd(streamEnded bool) {
	if !streamEnded {
		return
	}
	select {
	case p.answers <- struct{}{}:
	default: // nobody waits for so many
	}
}

// mustBeAnswered fails unless the server has answered.
func (p *peer) mustBeAnswered() error {
	select {
	case <-p.answers:
		return nil
	case <-p.gone:
		by, _ := p.ended()
		return fmt.Errorf("no answer but %s", by)
	case <-time.After(10 * time.Second):
		return errors.New("no answer for 10 s")
	}
}
