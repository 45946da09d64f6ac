package gated

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/pires/go-proxyproto"
	"go.uber.org/zap"

	"github.com/idlewheel/idlewheel/adapters/admit"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

// placesOfSockets is like places, but takes no time: connections are ended by visits.
func (s *site) placesOfSockets(hijacks bool) {
	s.settle = func() {}
	first, second := s.enter("/"), s.enter("/")
	s.refused()
	s.endAll()
	s.isOver(first)
	s.isOver(second)

	must(s.t, s.tracker.SetCapacity(idle.Capacity{MaxConns: 1}))
	evicted := s.enter("/")
	newcomer := s.connect()
	for !newcomer.get(s.header, "/") { // the other one is still busy
		newcomer = s.connect()
	}
	s.isOver(evicted)
	s.awaitOpen(1)
	must(s.t, s.tracker.SetCapacity(idle.Capacity{}))
	s.enter("/")
	s.refused()
	s.endAll()

	if hijacks {
		hijacked := s.enter("/hijack")
		s.endAll()
		s.isOver(hijacked)
	}

	s.enter("/")
	s.connect() // sends nothing
	must(s.t, s.shutdown(s.t.Context(), idle.Drain{CloseDelay: time.Millisecond, ForceAfter: 100 * time.Millisecond}))
	s.awaitOpen(0)
}

// endAll ends all connections.
func (s *site) endAll() {
	s.t.Helper()
	for s.gate.Stats().Open > 0 {
		must(s.t, s.tracker.Visit(s.t.Context(), func(i idle.Info) { i.EndIfIdle("test") }))
	}
}

// awaitOpen waits until n places are taken. A gate above the timeouts has a place back when the server has closed
// the connection.
func (s *site) awaitOpen(n int) {
	for s.gate.Stats().Open != n {
		runtime.Gosched()
	}
}

func TestPlacesOfSockets(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		for name, start := range servers {
			t.Run(network+", "+name, func(t *testing.T) {
				ln, err := net.Listen(network, address)
				must(t, err)
				defer ln.Close()
				gate := newGate(t)
				dial := func() (net.Conn, error) { return net.Dial(network, ln.Addr().String()) }
				s := &site{t: t, gate: gate, server: start(t, gate, ln), dial: dial}
				s.placesOfSockets(name == "idlehttp" || name == "idlefasthttp")
			})
		}
	}
}

// A loopServer is a server on gnet. With a header of the PROXY protocol, it counts a connection when it has read that.
type loopServer struct {
	gnet.BuiltinEventEngine
	gate    *admit.Gate
	proxied bool
	booted  chan struct{}
}

func (s *loopServer) OnBoot(gnet.Engine) gnet.Action { close(s.booted); return gnet.None }

func (s *loopServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if s.proxied {
		return nil, gnet.None
	}
	return nil, s.enter(c, c.RemoteAddr())
}

func (s *loopServer) enter(c gnet.Conn, addr net.Addr) gnet.Action {
	leave, err := s.gate.Enter(addr)
	if err != nil {
		return gnet.Close
	}
	c.SetContext(leave)
	return gnet.None
}

func (s *loopServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Peek(-1)
	if s.proxied && c.Context() == nil {
		end := bytes.Index(b, []byte("\r\n")) + 2
		if end < 2 {
			return gnet.None
		}
		header, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(b[:end])))
		if err != nil || s.enter(c, header.SourceAddr) != gnet.None {
			return gnet.Close
		}
		c.Discard(end)
		b = b[end:]
	}
	r := bytes.NewReader(b)
	if _, err := http.ReadRequest(bufio.NewReader(r)); err == nil {
		c.Discard(-1)
		c.Write([]byte(answer))
	}
	return gnet.None
}

func (s *loopServer) OnClose(c gnet.Conn, err error) gnet.Action {
	if leave, ok := c.Context().(func()); ok {
		leave()
	}
	return gnet.None
}

func TestPlacesOfGnet(t *testing.T) {
	for name, header := range map[string]string{"plain": "", "proxied": header} {
		t.Run(name, func(t *testing.T) {
			h := &loopServer{gate: newGate(t), proxied: header != "", booted: make(chan struct{})}
			wrapped, err := idlegnet.Wrap(h, idle.Policy{IdleTimeout: limit}, nil)
			must(t, err)
			address := filepath.Join(t.TempDir(), "s")
			ended := make(chan error, 1)
			go func() { ended <- gnet.Run(wrapped, "unix://"+address, gnet.WithLogger(zap.NewNop().Sugar())) }()
			select {
			case <-h.booted:
			case err := <-ended:
				t.Fatal(err)
			}
			s := &site{t: t, gate: h.gate, header: header,
				server: server{wrapped.Tracker(), wrapped.Shutdown},
				dial:   func() (net.Conn, error) { return net.Dial("unix", address) }}
			s.placesOfSockets(false)
			must(t, <-ended)
		})
	}
}
