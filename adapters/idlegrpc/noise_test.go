//go:build proof

package idlegrpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// anyPings lets clients ping as often as they like. By default grpc-go sends GOAWAY to one that
// pings twice within 5 minutes.
var anyPings = grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Nanosecond, PermitWithoutStream: true})

// A framed client talks to a server by frames.
type framed struct {
	*http2.Framer
	nc net.Conn
}

func dialFramed(t *testing.T, l *Listener) framed {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := framed{http2.NewFramer(nc, nc), nc}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// open begins a call.
func (f framed) open(t *testing.T, id uint32, method string) {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "test"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// await reads until a frame for which is returns true, or the end. It reports whether there was one.
func (f framed) await(is func(http2.Frame) bool) bool {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return false
		}
		if is(frame) {
			return true
		}
	}
}

// ping pings every 10 ms until the connection ends.
func (f framed) ping() {
	for f.WritePing(false, [8]byte{1}) == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestPingsAreNoUse: KeepAliveTimeout passes beside PINGs, and EndIfIdle ends the client that only pings.
func TestPingsAreNoUse(t *testing.T) {
	t.Run("KeepAliveTimeout", func(t *testing.T) {
		l, _, _ := serve(t, Timeouts{KeepAliveTimeout: limit}, anyPings)
		f := dialFramed(t, l)
		go f.ping()
		f.await(func(http2.Frame) bool { return false })
		if n := l.Stats().Limits["KeepAliveTimeout"]; n != 1 {
			t.Errorf("ended by %v", l.Stats().Limits)
		}
	})
	t.Run("EndIfIdle", func(t *testing.T) {
		l, _, _ := serve(t, Timeouts{}, anyPings)
		f := dialFramed(t, l)
		go f.ping()
		go f.await(func(http2.Frame) bool { return false })
		time.Sleep(2 * limit)
		eventually(t, "it is ended", func() bool {
			if err := l.Tracker().Visit(t.Context(), func(i idle.Info) {
				if i.Idle > limit {
					i.EndIfIdle("idle")
				}
			}); err != nil {
				t.Error(err)
			}
			return l.Tracker().Stats().Shed == 1
		})
	})
}

// TestSilentStream: a call whose handler has sent its header may be silent for as long as the
// client pings. Without pings StreamTimeout ends its connection.
func TestSilentStream(t *testing.T) {
	for name, pings := range map[string]bool{"pings": true, "silence": false} {
		t.Run(name, func(t *testing.T) {
			l, _, _ := serve(t, Timeouts{StreamTimeout: limit, BodyTimeout: limit}, anyPings)
			f := dialFramed(t, l)
			f.open(t, 1, "/test/begins")
			if !f.await(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders }) {
				t.Fatal("there is no header")
			}
			if pings {
				inTime := intime.Of(t, limit/4)
				go f.ping()
				begun := time.Now()
				alive := f.await(func(http2.Frame) bool { return time.Since(begun) > 4*limit })
				if !alive || l.Stats().Limits["StreamTimeout"] != 0 {
					inTime.Errorf("ended by %v", l.Stats().Limits)
				}
				return
			}
			f.await(func(http2.Frame) bool { return false })
			if n := l.Stats().Limits["StreamTimeout"]; n != 1 {
				t.Errorf("ended by %v", l.Stats().Limits)
			}
		})
	}
}

// TestRapidReset: calls that are cancelled as soon as they have begun leave nothing behind.
func TestRapidReset(t *testing.T) {
	l, _, _ := serve(t, Timeouts{})
	f := dialFramed(t, l)
	go f.await(func(http2.Frame) bool { return false })
	for i := range uint32(1000) {
		f.open(t, 1+2*i, "/test/echo")
		if err := f.WriteRSTStream(1+2*i, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
	}
	if err := echoOnce(dial(t, func() string { return l.Addr().String() })); err != nil {
		t.Error(err)
	}
	eventually(t, "no stream is tracked", func() bool { return l.StreamTracker().Stats().Live == 0 })
	for setting, n := range l.Stats().Limits {
		if n > 0 {
			t.Errorf("%d by %s", n, setting)
		}
	}
}

// TestClosedConnection: streams that are open when their client leaves are tracked no more.
func TestClosedConnection(t *testing.T) {
	l, _, _ := serve(t, Timeouts{BodyTimeout: time.Hour, BodyRate: idle.Rate{BytesPerSecond: Off}})
	f := dialFramed(t, l)
	f.open(t, 1, "/test/echo")
	eventually(t, "the stream is tracked", func() bool { return l.StreamTracker().Stats().Live == 1 })
	f.nc.Close()
	eventually(t, "nothing is tracked", func() bool { return l.StreamTracker().Stats().Live+l.Tracker().Stats().Live == 0 })
}

// TestHandshake: half a preface is no request.
func TestHandshake(t *testing.T) {
	l, _, _ := serve(t, Timeouts{HandshakeTimeout: limit, HeaderTimeout: time.Hour})
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, http2.ClientPreface[:10])
	io.Copy(io.Discard, nc)
	if n := l.Stats().Limits["HandshakeTimeout"]; n != 1 {
		t.Errorf("ended by %v", l.Stats().Limits)
	}
}

// TestResetCancelsContext: a handler whose call is reset by a limit finds its context cancelled, and
// the server's reset has the code CANCEL.
func TestResetCancelsContext(t *testing.T) {
	cancelled := make(chan error, 1)
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Wrap(bare, Timeouts{BodyTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(l.Credentials(nil)), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		<-s.Context().Done()
		cancelled <- s.Context().Err()
		return nil
	}))
	go server.Serve(l)
	defer server.Stop()
	f := dialFramed(t, l)
	f.open(t, 1, "/test/echo")
	var code http2.ErrCode
	f.await(func(f http2.Frame) bool {
		r, ok := f.(*http2.RSTStreamFrame)
		if ok {
			code = r.ErrCode
		}
		return ok
	})
	if code != http2.ErrCodeCancel {
		t.Errorf("reset with %v", code)
	}
	select {
	case err := <-cancelled:
		if err != context.Canceled {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the handler goes on")
	}
}
