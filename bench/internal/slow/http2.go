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
	h2 := func(name, does string, limit Limit, needs func(*Target) string, run func(p *peer) error) Case {
		return Case{Name: "h2-" + name, Protocol: "h2", Does: does, Limit: limit, needs: needs, run: run}
	}
	idle := func(name, does string, run func(p *peer) error) Case {
		return beside("h2-comes-back", h2(name, does, KeepAlive, get, run))
	}
	header := func(name, does string, run func(p *peer) error) Case {
		return beside("h2-slow-header", h2(name, does, Header, get, hello(run)))
	}
	// A body goes on with a frame after each pause.
	body := func(name, does string, limit Limit, each func(f *http2.Framer) error) Case {
		return beside("h2-slow-upload", h2(name, does, limit, post, hello(func(p *peer) error {
			p.slow()
			p.request("POST", p.Post, false)
			return p.frames(each)
		})))
	}
	// An answer is asked for with an initial window, and then a frame follows after each pause.
	answer := func(name, does string, limit Limit, window uint32, each func(f *http2.Framer) error) Case {
		return beside("h2-bursts", h2(name, does, limit, large, hello(func(p *peer) error {
			p.slow()
			p.request("GET", p.Large, true)
			if each == nil {
				return nil
			}
			return p.frames(each)
		}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})))
	}
	honest := func(reason, name, does string, needs func(*Target) string, run func(p *peer) error, settings ...http2.Setting) Case {
		return control(reason, h2(name, does, "", needs, hello(run, settings...)))
	}
	ping := func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) }
	return []Case{
		beside("h1-preconnect", h2("no-preface", "sends nothing", Handshake, get, nothing)),
		idle("preface-stops", "sends the preface, and no SETTINGS", say(http2.ClientPreface)),
		idle("settings-unacknowledged", "acknowledges no SETTINGS, and opens no stream", func(p *peer) error {
			p.send(http2.ClientPreface)
			p.frame(func(f *http2.Framer) error { return f.WriteSettings() })
			return nil
		}),
		idle("no-stream", "opens no stream", hello(nothing)),
		idle("idle", "makes a request, and never another", hello(func(p *peer) error {
			p.slow()
			p.request("GET", p.Get, true)
			return nil
		})),
		beside("h2-events", h2("pings", "opens no stream, and sends PINGs", KeepAlive, get, hello(func(p *peer) error { return p.frames(ping) }))),
		idle("settings", "opens no stream, and sends SETTINGS", hello(func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WriteSettings() })
		})),
		idle("priorities", "opens no stream, and sends PRIORITY", hello(func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WritePriority(3, http2.PriorityParam{Weight: 1}) })
		})),
		idle("windows", "opens no stream, and sends WINDOW_UPDATE", hello(func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) })
		})),
		soon(h2("goaway", "sends GOAWAY, and stays", KeepAlive, get, hello(func(p *peer) error {
			p.frame(func(f *http2.Framer) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) })
			return nil
		}))),
		header("header-stops", "sends HEADERS without END_HEADERS", func(p *peer) error {
			p.headers("GET", p.Get)
			return nil
		}),
		header("header-trickle", "sends CONTINUATION frames without an end", func(p *peer) error {
			p.headers("GET", p.Get)
			return p.frames(func(f *http2.Framer) error { return f.WriteContinuation(1, false, p.block(false, "x", "x")) })
		}),
		header("frame-trickle", "sends a CONTINUATION frame byte by byte", func(p *peer) error {
			p.headers("GET", p.Get)
			return p.trickle("\x00\x40\x00\x09\x00\x00\x00\x00\x01\x00\x01x\x7f\xff\x7e", "x") // a field with 16 kB
		}),
		beside("h2-slow-upload", h2("body-stops", "sends the beginning of a body", Body, post, hello(func(p *peer) error {
			p.slow()
			p.request("POST", p.Post, false)
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, []byte("beginning")) })
			return nil
		}))),
		body("body-trickle", "sends a body in frames of one byte", BodyRate, func(f *http2.Framer) error { return f.WriteData(1, false, []byte("x")) }),
		body("body-empty", "sends empty DATA", Body, func(f *http2.Framer) error { return f.WriteData(1, false, nil) }),
		body("body-padding", "sends DATA that is only padding", Body, func(f *http2.Framer) error { return f.WriteDataPadded(1, false, nil, make([]byte, 200)) }),
		body("body-never", "opens a stream for a body, and sends PINGs", Body, ping),
		beside("h2-slow-upload", h2("streams-left", "opens 50 streams for bodies, and leaves them", Body, post, hello(func(p *peer) error {
			p.slow()
			for i := range uint32(50) {
				p.open("POST", p.Post, 1+2*i, false)
			}
			return nil
		}))),
		harmless(beside("h2-comes-back", h2("resets", "opens a stream and resets it, once a second", Resets, get, hello(func(p *peer) error {
			for id := uint32(1); p.rest(p.Pause); id += 2 {
				p.open("GET", p.Get, id, true)
				p.frame(func(f *http2.Framer) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) })
			}
			return nil
		})))),
		answer("window-closed", "asks for something large with a window of 0", Write, 0, nil),
		answer("window-of-one", "asks for something large with a window of 1", Write, 1, nil),
		answer("window-closed-pings", "asks for something large with a window of 0, and sends PINGs", Write, 0, ping),
		answer("window-bytes", "asks for something large, and opens the window by a byte each second", WriteRate, 0, func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) }),
		answer("window-of-connection", "takes 64 kB, and then opens the window of the connection by a byte each second", WriteRate, 1<<24, func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) }),

		honest("bad links lose packets", "slow-header", "sends a header in frames over 3 s", get, func(p *peer) error {
			block := p.block(true, ":method", "GET", ":path", p.Get)
			half := len(block) / 2
			p.frame(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: block[:half]})
			})
			p.rest(3 * time.Second)
			p.frame(func(f *http2.Framer) error { return f.WriteContinuation(1, true, block[half:]) })
			return p.mustBeAnswered()
		}),
		honest("a phone in a train has such a link", "slow-upload", "sends 2,000 bytes a second for 20 s", post, func(p *peer) error {
			p.request("POST", p.Post, false)
			err := p.upload(func(piece string) error {
				p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, []byte(piece)) })
				return nil
			})
			if err != nil {
				return err
			}
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, true, nil) })
			return p.mustBeAnswered()
		}),
		honest("a player fills its buffer like this", "bursts", "takes 256 kB of something large every 2 s", large, func(p *peer) error {
			more := func(n uint32) {
				p.frame(func(f *http2.Framer) error { return errors.Join(f.WriteWindowUpdate(0, n), f.WriteWindowUpdate(1, n)) })
			}
			p.request("GET", p.Large, true)
			for range 8 {
				more(256 << 10)
				if !p.rest(2 * time.Second) {
					return errGone
				}
			}
			more(1 << 30)
			return p.mustBeAnswered()
		}),
		honest("an event stream may be silent", "events", "waits 40 s for events that don't come, and sends a PING every 13 s", need("stream", func(t *Target) string { return t.Stream }), func(p *peer) error {
			p.request("GET", p.Stream, true)
			return p.steadily(3, p.silence()/3, func() { p.frame(ping) })
		}),
		honest("that is what keep-alive is for", "comes-back", "makes a request every 4 s over one connection", get, func(p *peer) error {
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
		}),
	}
}

// hello is a case that greets the server first. A server may count from the handshake, so the
// client is slow from then on, unless the case makes a request.
func hello(run func(p *peer) error, settings ...http2.Setting) func(p *peer) error {
	return func(p *peer) error {
		if err := p.hello(settings...); err != nil {
			return err
		}
		return run(p)
	}
}

// harmless returns c as a case that may go on: a request a second costs little, and how many there
// may be is for the server to say.
func harmless(c Case) Case { c.Harmless = true; return c }

// frame writes a frame. If that fails the connection has ended, which reading finds out.
func (p *peer) frame(write func(*http2.Framer) error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	write(p.h2)
}

// frames writes a frame after each pause.
func (p *peer) frames(write func(*http2.Framer) error) error {
	for p.rest(p.Pause) {
		p.frame(write)
	}
	return nil
}

// hello sends the preface and the first SETTINGS, and waits for those of the server. A header
// that has begun must not be interrupted by their acknowledgement.
func (p *peer) hello(settings ...http2.Setting) error {
	greeting := bytes.NewBufferString(http2.ClientPreface)
	http2.NewFramer(greeting, nil).WriteSettings(settings...)
	p.writing.Lock()
	p.send(greeting.String()) // at once, as others do: HAProxy 2.6 closes if the preface comes alone
	p.greeted = true
	for range p.owed {
		p.h2.WriteSettingsAck()
	}
	p.writing.Unlock()
	select {
	case <-p.settled:
	case <-time.After(min(10*time.Second, p.GiveUp/2)):
	case <-p.gone:
		return errors.New("the server has closed the connection before its SETTINGS")
	}
	return nil
}

// acknowledge acknowledges the SETTINGS of the server. Some servers send theirs first, and close a
// connection that does not begin with the preface. Cases that have no hello never acknowledge.
func (p *peer) acknowledge() {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.greeted {
		p.h2.WriteSettingsAck()
	} else {
		p.owed++
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

// headers begins a header on stream 1 and doesn't end it.
func (p *peer) headers(method, path string) {
	p.frame(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: p.block(true, ":method", method, ":path", path)})
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
			if f.IsAck() {
				continue
			}
			p.acknowledge()
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
