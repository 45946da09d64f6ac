package idlehttp

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// speak2 has a server speak HTTP/2, by TLS or not.
func speak2(server *http.Server, secure bool) {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(secure)
	server.Protocols.SetUnencryptedHTTP2(!secure)
}

// transport returns a client of s that speaks HTTP/2 only, or HTTP/1 only.
func (s *site) transport(http2 bool) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetHTTP2(http2 && s.Secure)
	tr.Protocols.SetUnencryptedHTTP2(http2 && !s.Secure)
	if s.Secure {
		_, tr.TLSClientConfig = httpsuite.Identity()
	}
	if s.Memory != nil {
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return s.Memory.Dial() }
	}
	s.T.Cleanup(tr.CloseIdleConnections)
	return tr
}

// do makes a request by tr and returns the response's body.
func (s *site) do(tr *http.Transport, body io.Reader) string {
	client := http.Client{Transport: tr}
	response, err := client.Post(map[bool]string{false: "http", true: "https"}[s.Secure]+"://"+s.Addr().String(), "", body)
	if err != nil {
		s.T.Error(err)
		return ""
	}
	defer response.Body.Close()
	if (response.ProtoMajor == 1) != tr.Protocols.HTTP1() {
		s.T.Errorf("the response is of %s", response.Proto)
	}
	b, err := io.ReadAll(response.Body)
	if err != nil {
		s.T.Error(err)
	}
	return string(b)
}

// virtual runs a test of a server in virtual time, without TLS and with it. The
// client has the given window for each stream.
func virtual(t *testing.T, limits Timeouts, window uint32, h http.HandlerFunc, test func(t *testing.T, f framed)) {
	httpsuite.Both(t, func(t *testing.T, secure bool) { virtually(t, secure, limits, window, h, test) })
}

// virtually is virtual with TLS, or without it.
func virtually(t *testing.T, secure bool, limits Timeouts, window uint32, h http.HandlerFunc, test func(t *testing.T, f framed)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, startInMemory(t, secure, limits, h).dialFramed(window))
	})
}

// A framed client talks HTTP/2 by frames.
type framed struct {
	*httpsuite.Client
	site *site
}

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	b := append([]byte{0, 0, byte(len(payload)), kind, flags}, make([]byte, 4)...)
	binary.BigEndian.PutUint32(b[5:], stream)
	return string(b) + payload
}

// preface is what a client of HTTP/2 sends first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// hello is what a client says first, and request is a GET.
var (
	hello   = preface + frame(typeSettings, 0, 0, "")
	request = frame(typeHeaders, endHeaders|endStream, 1, getBlock)
	ping    = frame(typePing, 0, 0, "12345678")
)

// Types of frames, flags and codes, as RFC 9113 has them.
const (
	typeData, typeHeaders, typePriority, typeReset, typeSettings      = 0, 1, 2, 3, 4
	typePing, typeGoAway, typeWindowUpdate, typeContinuation     byte = 6, 7, 8, 9

	endStream, endHeaders, padded = 1, 4, 8

	codeNone, codeInternal = 0, 2
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
	f.SetDeadline(time.Time{}) // hours may pass
	f.hello(window)
	return f
}

// dial2 is dialFramed with a usual window.
func (s *site) dial2() framed { return s.dialFramed(defaultWindow) }

func (f framed) hello(window uint32) {
	f.Send(preface + frame(typeSettings, 0, 0, "\x00\x04"+number(window)))
}

const noWindow, defaultWindow = 0, 65535

func number(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// open begins a request, and returns a time before that.
func (f framed) open(stream uint32, block string, flags byte) time.Time {
	f.T.Helper()
	return f.Send(frame(typeHeaders, endHeaders|flags, stream, block))
}

// get makes a request that has to be answered.
func (f framed) get(stream uint32) time.Time {
	f.T.Helper()
	f.open(stream, getBlock, endStream)
	return f.wantEnd(stream)
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
func (f framed) again(text string, pause time.Duration) {
	quit := make(chan bool)
	f.T.Cleanup(func() { close(quit) })
	go func() {
		for err := error(nil); err == nil; _, err = io.WriteString(f.Conn, text) {
			select {
			case <-quit:
				return
			case <-time.After(pause):
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

func (f framed) read() (got, error) { return readFrame(f.In) }

func readFrame(r io.Reader) (got, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return got{}, err
	}
	g := got{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	g.payload = make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
	_, err := io.ReadFull(r, g.payload)
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

// wantGoAway waits until the server says that it ends the connection, for no fault of the
// client's.
func (f framed) wantGoAway() {
	f.T.Helper()
	f.wantFrame("GOAWAY", func(g got) bool { return g.kind == typeGoAway && g.code(4) == 0 })
}

// wantReset waits until the server has reset the stream: with an error, or, after a response to a
// body that was late, because it reads no more.
func (f framed) wantReset(stream uint32) time.Time {
	f.T.Helper()
	want := uint32(codeInternal)
	return f.wantFrame("a reset", func(g got) bool {
		if g.kind == typeHeaders && g.stream == stream && g.flags&endStream != 0 {
			want = codeNone
		}
		is := g.kind == typeReset && g.stream == stream
		if is && g.code(0) != want {
			f.T.Errorf("reset with code %d, want %d", g.code(0), want)
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
