package slow

import (
	"time"

	"golang.org/x/net/http2"
)

func grpcCases() []Case {
	rpc := func(name, does, limit string, run func(p *peer) error, settings ...http2.Setting) Case {
		return Case{Name: "grpc-" + name, Protocol: "grpc", Does: does, Limit: limit,
			needs: need("grpc", func(t *Target) string { return t.GRPC }),
			run: func(p *peer) error {
				p.hello(settings...)
				p.frame(func(f *http2.Framer) error {
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: p.block(true,
						":method", "POST", ":path", p.GRPC, "content-type", "application/grpc", "te", "trailers")})
				})
				p.slow()
				return run(p)
			}}
	}
	honest := func(c Case) Case { c.Control = true; return c }
	message := func(text string) []byte { return append([]byte{0, 0, 0, 0, byte(len(text))}, text...) }
	return []Case{
		rpc("message-stops", "sends half a message", "of a message", func(p *peer) error {
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, []byte("\x00\x00\x00\x40\x00half")) })
			return nil
		}),
		rpc("message-trickle", "sends a message byte by byte", "the minimum rate of a message", func(p *peer) error {
			p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, []byte("\x00\x00\x00\x40\x00")) })
			return p.frames(func(f *http2.Framer) error { return f.WriteData(1, false, []byte("x")) })
		}),
		rpc("silence", "opens a stream, and sends nothing", "of a stream, if it has one: a stream may be silent", nothing),
		rpc("read-stops", "sends messages, and takes no answer", "of a pause in an answer", func(p *peer) error {
			return p.frames(func(f *http2.Framer) error { return f.WriteData(1, false, message("")) })
		}, noWindow),
		honest(rpc("calls", "sends a message every 3 s for 30 s", "that is what streams are for", func(p *peer) error {
			return p.control(int(min(30*time.Second, p.GiveUp*3/4)/(3*time.Second)), 3*time.Second, func() {
				p.frame(func(f *http2.Framer) error { return f.WriteData(1, false, message("")) })
			})
		})),
	}
}
