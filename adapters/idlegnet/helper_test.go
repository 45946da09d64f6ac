package idlegnet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// handler is a gnet.EventHandler made of functions, those that matter. Without
// an OnTraffic it echoes.
type handler struct {
	gnet.BuiltinEventEngine
	boot     func(gnet.Engine) gnet.Action
	shutdown func(gnet.Engine)
	open     func(gnet.Conn) ([]byte, gnet.Action)
	traffic  func(gnet.Conn) gnet.Action
	close    func(gnet.Conn, error) gnet.Action
	tick     func() (time.Duration, gnet.Action)
}

func (h *handler) OnBoot(e gnet.Engine) gnet.Action {
	if h.boot != nil {
		return h.boot(e)
	}
	return gnet.None
}

func (h *handler) OnShutdown(e gnet.Engine) {
	if h.shutdown != nil {
		h.shutdown(e)
	}
}

func (h *handler) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if h.open != nil {
		return h.open(c)
	}
	return nil, gnet.None
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	if h.traffic != nil {
		return h.traffic(c)
	}
	b, _ := c.Next(-1)
	c.Write(b)
	return gnet.None
}

func (h *handler) OnClose(c gnet.Conn, err error) gnet.Action {
	if h.close != nil {
		return h.close(c, err)
	}
	return gnet.None
}

func (h *handler) OnTick() (time.Duration, gnet.Action) {
	if h.tick != nil {
		return h.tick()
	}
	return time.Hour, gnet.None
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// server is a running engine.
type server struct {
	*Handler
	address string // of the first listener
	engine  gnet.Engine
	ended   chan struct{}
	err     error // of gnet.Run, when ended is closed
}

const patience = 2 * time.Minute // that a test has; enough on a busy machine

// serve runs an engine with h, wrapped, until the end of the test. An address
// whose port is 0 gets a free one, and a "unix://" a file.
func serve(t *testing.T, h *handler, p idle.Policy, opts *Options, addresses []string, gnetOpts ...gnet.Option) *server {
	t.Helper()
	wrapped := wrap(t, h, p, opts)
	s := start(t, h, wrapped, addresses, gnetOpts)
	s.Handler = wrapped
	return s
}

// wrap is Wrap of what is right, with a fine tick.
func wrap(t testing.TB, h gnet.EventHandler, p idle.Policy, opts *Options) *Handler {
	t.Helper()
	var full Options
	if opts != nil {
		full = *opts
	}
	if full.Idle.Tick == 0 {
		full.Idle.Tick = 10 * time.Millisecond
	}
	w, err := Wrap(h, p, &full)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// start runs an engine with run, which is h or wraps it.
func start(t *testing.T, h *handler, run gnet.EventHandler, addresses []string, gnetOpts []gnet.Option) *server {
	t.Helper()
	s := new(server)
	booted := make(chan struct{})
	userBoot := h.boot
	h.boot = func(e gnet.Engine) gnet.Action {
		s.engine = e
		defer close(booted)
		if userBoot != nil {
			return userBoot(e)
		}
		return gnet.None
	}
	wanted := slices.Clone(addresses)
	for isUp := false; !isUp; {
		for i, a := range wanted {
			addresses[i] = freeAddress(t, a)
		}
		s.address, s.ended = addresses[0], make(chan struct{})
		go func() {
			defer close(s.ended)
			s.err = gnet.Rotate(run, addresses, append(gnetOpts, gnet.WithLogger(silent{}))...)
		}()
		select {
		case <-booted:
			isUp = true
		case <-s.ended:
			select {
			case <-booted: // and ended at once
				isUp = true
			default:
				if !errors.Is(s.err, syscall.EADDRINUSE) { // else somebody has taken the port meanwhile
					t.Fatal("the engine did not boot: ", s.err)
				}
			}
		}
	}
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends the engine, if it has not ended, and waits for that.
func (s *server) stop(t *testing.T) {
	t.Helper()
	// Stop would look only every half second whether it is done.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	select {
	case <-s.ended:
	default:
		s.engine.Stop(ctx)
		s.await(t)
	}
}

func (s *server) await(t *testing.T) {
	t.Helper()
	receive(t, s.ended)
	if s.err != nil {
		t.Error("gnet.Run: ", s.err)
	}
}

func freeAddress(t *testing.T, a string) string {
	t.Helper()
	if a == "unix://" {
		return a + filepath.Join(t.TempDir(), "s")
	}
	scheme, hostPort, _ := strings.Cut(a, "://")
	if !strings.HasSuffix(hostPort, ":0") {
		return a
	}
	if scheme == "udp" {
		pc, err := net.ListenPacket("udp", hostPort)
		if err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		return "udp://" + pc.LocalAddr().String()
	}
	ln, err := net.Listen("tcp", hostPort)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return "tcp://" + ln.Addr().String()
}

// receive waits for a value, or for the channel to be closed.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("waited too long")
	}
	return v
}

const ms = time.Millisecond

func tcp() []string { return []string{"tcp://127.0.0.1:0"} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
