package slow

import (
	"time"

	"golang.org/x/net/http2"
)

func grpcCases() []Case {
	rpc := func(name, does string, limit Limit, run func(p *peer) error, settings ...http2.Setting) Case {
		return Case{Name: "grpc-" + name, Protocol: "grpc", Does: does, Limit: limit,
			needs: need("grpc", func(t *Target) string { return t.GRPC }),
			run: hello(func(p *peer) error {
				if limit == "" { // an honest client reads the answers
					p.frame(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<30) })
				}
				p.frame(func(f *http2.Framer) error {
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: p.block(true,
						":method", "POST", ":path", p.GRPC, "content-type", "application/grpc", "te", "trailers")})
				})
				return run(p)
			}, settings...)}
	}
	honest := func(reason, name, does string, run func(p *peer) error) Case {
		return control(reason, rpc(name, does, "", run, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	}
	data := func(text string) func(f *http2.Framer) error {
		return func(f *http2.Framer) error { return f.WriteData(1, false, []byte(text)) }
	}
	return []Case{
		beside("grpc-slow-message", rpc("message-stops", "sends half a message", Body, func(p *peer) error {
			p.frame(data("\x00\x00\x00\x40\x00half"))
			return nil
		})),
		beside("grpc-slow-message", rpc("message-trickle", "sends a message byte by byte", BodyRate, func(p *peer) error {
			p.frame(data("\x00\x00\x00\x40\x00"))
			return p.frames(data("x"))
		})),
		beside("grpc-subscribes", rpc("silence", "opens a stream, and sends nothing", Body, nothing)),
		beside("grpc-calls", rpc("read-stops", "sends messages, and doesn't read the answers", Write, func(p *peer) error {
			return p.frames(data(emptyMessage))
		}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})),

		honest("a phone in a train has such a link", "slow-message", "sends a message with 2,000 bytes a second for 20 s", func(p *peer) error {
			p.frame(data("\x00\x00\x00\x9c\x40")) // uploads*uploadSize
			return p.upload(func(piece string) error {
				p.frame(data(piece))
				return nil
			})
		}),
		honest("a stream of events may be silent", "subscribes", "sends a message, and then waits 30 s", func(p *peer) error {
			p.frame(data(emptyMessage))
			if !p.rest(p.silence()) {
				return errGone
			}
			return nil
		}),
		honest("that is what streams are for", "calls", "sends a message every 3 s for 30 s", func(p *peer) error {
			return p.steadily(int(p.silence()/(3*time.Second)), 3*time.Second, func() { p.frame(data(emptyMessage)) })
		}),
	}
}

// emptyMessage is a message of gRPC without a byte.
const emptyMessage = "\x00\x00\x00\x00\x00"
