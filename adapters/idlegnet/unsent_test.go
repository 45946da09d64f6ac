//go:build proof

package idlegnet

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestMaxUnsent: a client that doesn't read is ended when gnet holds back too much for it, long
// before WriteTimeout. If that isn't too much, a visit finds it.
func TestMaxUnsent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("gnet holds nothing back there")
	}
	big := make([]byte, flood)
	for name, handle := range map[string]func() *handler{
		"returned": func() *handler { return &handler{greeting: big} },
		"Write": func() *handler {
			return &handler{open: func(c gnet.Conn) gnet.Action { c.Write(big); return gnet.None }}
		},
		"AsyncWrite": func() *handler {
			h := &handler{}
			h.open = func(c gnet.Conn) gnet.Action {
				c.AsyncWrite(big, func(c gnet.Conn, err error) error {
					if err == nil {
						h.wrapped.Conn(c).Sent(0)
					}
					return nil
				})
				return gnet.None
			}
			return h
		},
	} {
		for most, ends := range map[int]bool{flood / 2: true, 2 * flood: false} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, handle(), idle.Policy{WriteTimeout: time.Hour}, &Options{MaxUnsent: most}, gnet.WithNumEventLoop(1))
				nc := dial(t, s.address)
				if ends {
					var timeout *idle.TimeoutError
					if err := receive(t, s.closed).err; !errors.As(err, &timeout) || timeout.Cause != "max_unsent" {
						t.Errorf("closed by %v", err)
					}
					return
				}
				waits := func() (unsent int) {
					if err := s.Tracker().Visit(t.Context(), func(i idle.Info) { unsent += i.Unsent() }); err != nil || unsent > flood {
						t.Fatalf("%d bytes: %v", unsent, err)
					}
					return unsent
				}
				await(t, func() bool { return waits() > 0 })
				read(t, nc, flood)
				await(t, func() bool { return waits() == 0 })
				s.wantOpen(t)
			})
		}
	}
}

// TestMaxUnsentOfAGreeting: what OnOpen returns counts only if gnet has to hold it back.
// This greeting is longer than MaxUnsent, but the kernel takes it at once.
func TestMaxUnsentOfAGreeting(t *testing.T) {
	t.Parallel()
	h := &handler{greeting: make([]byte, 20<<10)}
	s := serve(t, h, idle.Policy{WriteTimeout: time.Hour}, &Options{MaxUnsent: 16 << 10}, gnet.WithNumEventLoop(1))
	nc := dial(t, s.address)
	read(t, nc, len(h.greeting))
	for range 3 { // so that the loop has been through the passes and tasks of OnOpen
		exchange(t, nc, "ping")
	}
	if st := s.Stats(); len(st.Causes) > 0 {
		t.Errorf("ended: %+v", st.Causes)
	}
}
