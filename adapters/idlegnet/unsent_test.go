//go:build proof

package idlegnet

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestMaxUnsent: a client that doesn't read is ended when gnet holds back too much for it,
// long before WriteTimeout.
func TestMaxUnsent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("gnet holds nothing back there")
	}
	var own atomic.Pointer[Handler]
	ways := map[string]func(gnet.Conn) []byte{
		"Write":    func(c gnet.Conn) []byte { c.Write(make([]byte, flood)); return nil },
		"returned": func(gnet.Conn) []byte { return make([]byte, flood) },
		"AsyncWrite": func(c gnet.Conn) []byte {
			c.AsyncWrite(make([]byte, flood), func(c gnet.Conn, err error) error {
				if err == nil {
					own.Load().Conn(c).Sent(0)
				}
				return nil
			})
			return nil
		},
	}
	for name, write := range ways {
		for unsent, ends := range map[int]bool{flood / 2: true, 2 * flood: false} {
			t.Run(name, func(t *testing.T) {
				closed, onClose := closings()
				h := &handler{close: onClose, open: func(c gnet.Conn) ([]byte, gnet.Action) { return write(c), gnet.None }}
				s := serve(t, h, idle.Policy{WriteTimeout: time.Hour}, &Options{MaxUnsent: unsent}, tcp(), gnet.WithNumEventLoop(1))
				own.Store(s.Handler)
				nc := dial(t, s.address)
				if !ends {
					read(t, nc, flood)
					return
				}
				var timeout *idle.TimeoutError
				if err := receive(t, closed).err; !errors.As(err, &timeout) || timeout.Cause != "max_unsent" {
					t.Errorf("closed by %v", err)
				}
			})
		}
	}
	if _, err := Wrap(&handler{}, idle.Policy{WriteTimeout: time.Hour}, &Options{MaxUnsent: -1}); err == nil || !strings.Contains(err.Error(), "idlegnet: Options.MaxUnsent is -1") {
		t.Errorf("a negative one: %v", err)
	}
}

// TestMaxUnsentOfAGreeting: what OnOpen returns counts only if gnet has to hold it back.
// This greeting is longer than MaxUnsent, but the kernel takes it at once.
func TestMaxUnsentOfAGreeting(t *testing.T) {
	t.Parallel()
	greeting := make([]byte, 20<<10)
	h := &handler{
		open:    func(gnet.Conn) ([]byte, gnet.Action) { return greeting, gnet.None },
		traffic: func(c gnet.Conn) gnet.Action { c.Next(-1); c.Write([]byte("pong")); return gnet.None },
	}
	s := serve(t, h, idle.Policy{WriteTimeout: time.Hour}, &Options{MaxUnsent: 16 << 10}, tcp(), gnet.WithNumEventLoop(1))
	nc := dial(t, s.address)
	read(t, nc, len(greeting))
	// The answer shows that the loop has been through the passes and tasks of OnOpen.
	for range 3 {
		if _, err := nc.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		read(t, nc, len("pong"))
	}
	if st := s.Stats(); len(st.Causes) > 0 {
		t.Errorf("ended: %+v", st.Causes)
	}
}

// TestUnsentIsCounted: a visit finds how many bytes gnet holds back.
func TestUnsentIsCounted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("gnet holds nothing back there")
	}
	h := &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) { return make([]byte, flood), gnet.None }}
	s := serve(t, h, idle.Policy{WriteTimeout: time.Hour}, nil, tcp(), gnet.WithNumEventLoop(1))
	nc := dial(t, s.address)
	await := func(conns int) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(ms) {
			live, waiting, unsent := 0, 0, 0
			err := s.Tracker().Visit(t.Context(), func(i idle.Info) {
				live++
				n := i.Unsent()
				if unsent += n; n > 0 {
					waiting++
				}
			})
			if err != nil || time.Since(begun) > patience {
				t.Fatalf("%d live, %d with %d bytes: %v", live, waiting, unsent, err)
			}
			if live == 1 && waiting == conns && unsent <= flood {
				return
			}
		}
	}
	await(1)
	read(t, nc, flood)
	await(0)
}

// read reads n bytes.
func read(t *testing.T, nc net.Conn, n int) {
	t.Helper()
	for b := make([]byte, 64<<10); n > 0; {
		got, err := nc.Read(b)
		if err != nil {
			t.Fatalf("%v, with %d bytes to come", err, n)
		}
		n -= got
	}
}
