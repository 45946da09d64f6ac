package idlehttp

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// A framed client talks HTTP/2 by frames.
type framed struct {
	*httpsuite.Client
	site *site
}

// Types of frames, flags and codes, as RFC 9113 has them.
const (
	typeData, typeHeaders, typePriority, typeReset, typeSettings      = 0, 1, 2, 3, 4
	typePing, typeGoAway, typeWindowUpdate, typeContinuation     byte = 6, 7, 8, 9

	endStream, endHeaders = 1, 4

	codeCancel = 8
)

// The header blocks of a GET and a POST of /.
const (
	getBlock  = "\x82\x87\x84\x41\x04test"
	postBlock = "\x83\x87\x84\x41\x04test"
)

// dialFramed connects for HTTP/2 and says hello. Streams have a window of the
// given size.
func (s *site) dialFramed(window uint32) framed {
	s.T.Helper()
	f := framed{s.Dial("h2"), s}
	f.Send(preface + frame(typeSettings, 0, 0, "\x00\x04"+number(window)))
	return f
}

const noWindow, defaultWindow = 0, 65535

func number(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// open begins a request, and returns a time before that.
func (f framed) open(stream uint32, block string, flags byte) time.Time {
	f.T.Helper()
	return f.Send(frame(typeHeaders, endHeaders|flags, stream, block))
}

// update has the client take more of a stream, or of the connection.
func (f framed) update(stream, n uint32) { f.Send(frame(typeWindowUpdate, 0, stream, number(n))) }

// data sends a part of a body.
func (f framed) data(stream uint32, n int, flags byte) {
	f.T.Helper()
	for ; n > 200; n -= 200 {
		f.Send(frame(typeData, 0, stream, strings.Repeat("x", 200)))
	}
	f.Send(frame(typeData, flags, stream, strings.Repeat("x", n)))
}

// again writes text again and again until that fails or the test ends.
func (f framed) again(t testing.TB, text string, pause time.Duration) {
	quit := make(chan bool)
	t.Cleanup(func() { close(quit) })
	go func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(pause):
				if _, err := io.WriteString(f.Conn, text); err != nil {
					return
				}
			}
		}
	}()
}

// A got is a frame that has arrived.
type got struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// code returns the code of a frame that has one at the given offset.
func (g got) code(at int) uint32 { return binary.BigEndian.Uint32(g.payload[at:]) }

func (f framed) read() (got, error) {
	var head [9]byte
	if _, err := io.ReadFull(f.In, head[:]); err != nil {
		return got{}, err
	}
	g := got{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	g.payload = make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
	_, err := io.ReadFull(f.In, g.payload)
	return g, err
}

// wantFrame reads until a frame for which ok is true. Before that there may be no
// stream that is reset, and no end.
func (f framed) wantFrame(what string, ok func(got) bool) time.Time {
	f.T.Helper()
	for {
		g, err := f.read()
		switch {
		case err != nil:
			f.T.Fatalf("got %v, want %s", err, what)
		case ok(g):
			return time.Now()
		case g.kind == typeReset:
			f.T.Fatalf("stream %d is reset with code %d, want %s", g.stream, g.code(0), what)
		case g.kind == typeGoAway:
			f.T.Fatalf("GOAWAY with code %d, want %s", g.code(4), what)
		}
	}
}

// wantReset waits until the server has reset the stream.
func (f framed) wantReset(stream uint32) time.Time {
	f.T.Helper()
	return f.wantFrame("a reset", func(g got) bool {
		is := g.kind == typeReset && g.stream == stream
		if is && g.code(0) != codeCancel {
			f.T.Errorf("reset with code %d, want %d", g.code(0), codeCancel)
		}
		return is
	})
}

// wantEnd waits for the end of the response on the stream.
func (f framed) wantEnd(stream uint32) time.Time {
	f.T.Helper()
	return f.wantFrame("the end of the response", func(g got) bool {
		return g.stream == stream && g.kind <= typeHeaders && g.flags&endStream != 0
	})
}

// wantReset checks that n streams have been reset, and no connection has timed
// out.
func (s *site) wantReset(n uint64) {
	s.T.Helper()
	count := func() uint64 { return s.Stats().Phases["request stream"] }
	httpsuite.Eventually(s.T, "the streams are counted", func() bool { return count() >= n })
	if got := count(); got != n {
		s.T.Errorf("%d streams were reset, want %d", got, n)
	}
	s.WantNone()
}

// wantResetBy checks that n streams have been reset by the setting, or by that and
// another one.
func (s *site) wantResetBy(n uint64, settings ...string) {
	s.T.Helper()
	s.wantReset(n)
	limits, got := s.Stats().Limits, uint64(0)
	for _, setting := range settings {
		got += limits[setting]
	}
	if got != n {
		s.T.Errorf("streams were reset by %v, want %d by %v", limits, n, settings)
	}
}
