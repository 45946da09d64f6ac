package idlegnet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
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

// dial connects to an address as gnet writes it. The engine may not listen yet. The
// receive buffer has a fixed size. Otherwise Linux lets it grow while the client
// reads, on some machines to 32 MiB, and it may take a whole flood.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	network, hostPort, _ := strings.Cut(address, "://")
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var nc net.Conn
		if nc, err = net.Dial(network, hostPort); err == nil {
			t.Cleanup(func() { nc.Close() })
			nc.SetDeadline(time.Now().Add(patience))
			if tc, ok := nc.(*net.TCPConn); ok {
				if err := tc.SetReadBuffer(64 << 10); err != nil {
					t.Fatal(err)
				}
			}
			return nc
		}
	}
	t.Fatal(err)
	return nil
}

// exchange sends a message and waits for its echo.
func exchange(t testing.TB, nc net.Conn, message string) {
	t.Helper()
	if err := echo(nc, message); err != nil {
		t.Fatal(err)
	}
}

func echo(nc net.Conn, message string) error {
	if _, err := nc.Write([]byte(message)); err != nil {
		return err
	}
	got := make([]byte, len(message))
	for n := 0; n < len(got); {
		m, err := nc.Read(got[n:])
		if err != nil {
			return err
		}
		n += m
	}
	return nil
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

// closing is what OnClose was told.
type closing struct {
	c   gnet.Conn
	err error
	at  time.Time
}

// closings makes an OnClose that sends what it is told.
func closings() (chan closing, func(gnet.Conn, error) gnet.Action) {
	all := make(chan closing, 1<<16)
	return all, func(c gnet.Conn, err error) gnet.Action {
		all <- closing{c, err, time.Now()}
		return gnet.None
	}
}

// expectTimeout checks that a connection was closed for the reason, and not
// before the limit had passed since the given time. The latter nothing excuses.
func expectTimeout(t testing.TB, got closing, reason idle.Reason, since time.Time, limit time.Duration) {
	t.Helper()
	te, ok := got.err.(*idle.TimeoutError)
	if !ok {
		t.Fatalf("OnClose got %v (%T), not a timeout", got.err, got.err)
	}
	if te.Reason != reason || te.Limit != limit {
		t.Errorf("closed for %v, not for %v of %v", te, reason, limit)
	}
	if late, ok := t.(intime.T); ok {
		t = late.TB
	}
	if passed := got.at.Sub(since); passed < limit {
		t.Errorf("closed %v early", limit-passed)
	}
}

// log collects what happened, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, " ")
}

const ms = time.Millisecond

func tcp() []string { return []string{"tcp://127.0.0.1:0"} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
