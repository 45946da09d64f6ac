package slow

import (
	"time"

	"golang.org/x/net/http2"
)

func grpcCases() []Case {
	rpc := func(name, does string, limit Limit, window uint32, run func(p *peer) error) Case {
		return Case{Name: "grpc-" + name, Protocol: "grpc", Does: does, Limit: limit,
			needs: need("grpc", func(t *Target) string { return t.GRPC }),
			run: hello(func(p *peer) error {
				p.slow()
				if window > 0 {
					p.frame(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, window) })
				}
				p.frame(func(f *http2.Framer) error {
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: p.block(true,
						":method", "POST", ":path", p.GRPC, "content-type", "application/grpc", "te", "trailers")})
				})
				return run(p)
			}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})}
	}
	const reads = 1 << 30 // the window of a client that reads
	honest := func(reason, name, does string, run func(p *peer) error) Case {
		return control(reason, rpc(name, does, "", reads, run))
	}
	data := func(text string) func(f *http2.Framer) error {
		return func(f *http2.Framer) error { return f.WriteData(1, false, []byte(text)) }
	}
	// later is a case that has had an answer to its first message.
	later := func(then func(p *peer) error) func(p *peer) error {
		return func(p *peer) error {
			p.frame(data(emptyMessage))
			if !p.rest(p.Pause) {
				return errGone
			}
			p.slow()
			return then(p)
		}
	}
	stops := func(p *peer) error {
		p.frame(data("\x00\x00\x00\x40\x00half"))
		return nil
	}
	trickles := func(p *peer) error {
		p.frame(data("\x00\x00\x00\x40\x00"))
		return p.frames(data("x"))
	}
	return []Case{
		beside("grpc-slow-message", rpc("message-stops", "sends half a message", Body, reads, stops)),
		beside("grpc-slow-message", rpc("message-trickle", "sends a message byte by byte", BodyRate, reads, trickles)),
		beside("grpc-slow-message", rpc("later-message-stops", "gets an answer, and then sends half a message", Body, reads, later(stops))),
		beside("grpc-slow-message", rpc("later-message-trickle", "gets an answer, and then sends a message byte by byte", BodyRate, reads, later(trickles))),
		beside("grpc-subscribes", rpc("silence", "opens a stream, and sends nothing", Body, reads, nothing)),
		beside("grpc-calls", rpc("read-stops", "sends messages, and doesn't read the answers", Write, 0, func(p *peer) error {
			return p.frames(data(emptyMessage))
		})),

		honest("a phone in a train has such a link", "slow-message", "sends two messages with 2,000 bytes a second for 20 s", func(p *peer) error {
			sent := 0
			return p.upload(func(piece string) error {
				if sent%(uploads/2) == 0 {
					p.frame(data("\x00\x00\x00\x4e\x20")) // half of uploads*uploadSize
				}
				sent++
				p.frame(data(piece))
				return nil
			})
		}),
		honest("a stream of events may be silent", "subscribes", "sends a message, and then waits 40 s", func(p *peer) error {
			p.frame(data(emptyMessage))
			if !p.rest(p.silence()) {
				return errGone
			}
			return nil
		}),
		honest("that is what streams are for", "calls", "sends a message every 3 s for 40 s", func(p *peer) error {
			return p.steadily(int(p.silence()/(3*time.Second)), 3*time.Second, func() { p.frame(data(emptyMessage)) })
		}),
	}
}

// emptyMessage is a message of gRPC without a byte.
const emptyMessage = "\x00\x00\x00\x00\x00"
