package idlegnet

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
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
	shutdown func()
	open     func(gnet.Conn) gnet.Action
	greeting []byte // that OnOpen returns
	traffic  func(gnet.Conn) gnet.Action
	close    func(gnet.Conn, error) gnet.Action
	tick     func() (time.Duration, gnet.Action)

	at    []string     // addresses to listen at; the default is one of TCP
	later *idle.Policy // of phase, if any

	// These are set by serve, or before OnBoot returns.
	wrapped *Handler
	phase   *idle.Phase
	opened  chan gnet.Conn
	closed  chan closing
}

// closing is what OnClose was told.
type closing struct {
	c   gnet.Conn
	err error
	at  time.Time
}

func (h *handler) OnBoot(e gnet.Engine) (action gnet.Action) {
	if h.later != nil {
		var err error
		if h.phase, err = h.wrapped.Phase(*h.later); err != nil {
			panic(err)
		}
	}
	if h.boot != nil {
		action = h.boot(e)
	}
	return action
}

func (h *handler) OnShutdown(gnet.Engine) {
	if h.shutdown != nil {
		h.shutdown()
	}
}

func (h *handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	if h.open != nil {
		action = h.open(c)
	}
	offer(h.opened, c)
	return h.greeting, action
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	if h.traffic != nil {
		return h.traffic(c)
	}
	b, _ := c.Next(-1)
	c.Write(b)
	return gnet.None
}

func (h *handler) OnClose(c gnet.Conn, err error) (action gnet.Action) {
	if h.close != nil {
		action = h.close(c, err)
	}
	offer(h.closed, closing{c, err, time.Now()})
	return action
}

func (h *handler) OnTick() (time.Duration, gnet.Action) {
	if h.tick != nil {
		return h.tick()
	}
	return time.Hour, gnet.None
}

// wantTimeout checks that the next connection that is closed is closed for the reason,
// and not before its limit had passed since the given time. The latter nothing excuses.
func (h *handler) wantTimeout(t testing.TB, reason idle.Reason, since time.Time, limit time.Duration) closing {
	t.Helper()
	got := receive(t, h.closed)
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
	if passed := got.at.Sub(since); passed < te.Limit {
		t.Errorf("closed %v early", te.Limit-passed)
	}
	return got
}

// wantOpen checks that no connection has been closed.
func (h *handler) wantOpen(t testing.TB) {
	t.Helper()
	if len(h.closed) > 0 {
		t.Fatal("closed: ", receive(t, h.closed).err)
	}
}

// offer sends v unless the channel is nil or full.
func offer[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// discard and leave are OnTraffics.
func discard(c gnet.Conn) gnet.Action { c.Discard(-1); return gnet.None }
func leave(gnet.Conn) gnet.Action     { return gnet.None }

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
	*handler
	address string // of the first listener
	engine  gnet.Engine
	ended   chan struct{}
	err     error // of gnet.Run, when ended is closed
}

const patience = 2 * time.Minute // that a test has; enough on a busy machine

// serve runs an engine with h, wrapped, until the end of the test. An address
// whose port is 0 gets a free one, and a "unix://" a file.
func serve(t *testing.T, h *handler, p idle.Policy, opts *Options, gnetOpts ...gnet.Option) *server {
	t.Helper()
	h.wrapped = wrap(t, h, p, opts)
	return start(t, h, h.wrapped, gnetOpts)
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
func start(t *testing.T, h *handler, run gnet.EventHandler, gnetOpts []gnet.Option) *server {
	t.Helper()
	if h.at == nil {
		h.at = []string{"tcp://127.0.0.1:0"}
	}
	h.opened, h.closed = make(chan gnet.Conn, 1<<12), make(chan closing, 1<<12)
	s := &server{Handler: h.wrapped, handler: h}
	booted := make(chan struct{})
	userBoot := h.boot
	h.boot = func(e gnet.Engine) (action gnet.Action) {
		s.engine = e
		defer close(booted)
		if userBoot != nil {
			action = userBoot(e)
		}
		return action
	}
	wanted := slices.Clone(h.at)
	for isUp := false; !isUp; {
		for i, a := range wanted {
			h.at[i] = freeAddress(t, a)
		}
		s.address, s.ended = h.at[0], make(chan struct{})
		go func() {
			defer close(s.ended)
			s.err = gnet.Rotate(run, h.at, append(gnetOpts, gnet.WithLogger(silent{}))...)
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
