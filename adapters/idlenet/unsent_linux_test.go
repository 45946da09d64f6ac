//go:build proof && linux && !386 && !s390x && !idleother

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// unsent returns how many bytes wait for the peers of a tracker's connections, without those for
// which none do.
func unsent(t *testing.T, tracker *idle.Tracker) map[any]int {
	t.Helper()
	waiting := map[any]int{}
	if err := tracker.Visit(t.Context(), func(i idle.Info) {
		if n := i.Unsent(); n > 0 {
			waiting[i.Owner] = n
		}
	}); err != nil {
		t.Fatal(err)
	}
	return waiting
}

// TestUnsentIsCounted: a visit finds how many bytes wait for a peer that doesn't read.
func TestUnsentIsCounted(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{WriteTimeout: time.Hour})
	connect(t, tracker, nil) // for this one nothing waits
	server, client := connect(t, tracker, nil)
	done := make(chan error)
	go func() { _, err := server.Write(make([]byte, 32<<20)); done <- err }()
	eventually(t, "bytes wait for the client", func() bool {
		waiting := unsent(t, tracker)
		return len(waiting) == 1 && waiting[server] >= 1000
	})
	go readAll(net.Conn(client))
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "the client has read what was in the kernel's buffers", func() bool {
		return len(unsent(t, tracker)) == 0
	})
}

// TestMaxUnsent: a peer that doesn't read is ended when its bytes are too many, long before
// WriteTimeout. One that reads everything is not, though writes wait for it as well.
func TestMaxUnsent(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			bare, _ := socketPair(t, network, address)
			tracker := newTracker(t, idle.Policy{WriteTimeout: time.Hour})
			server, err := wrapConn(bare, tracker, &Options{MaxUnsent: 8 << 10})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			err, _ = await(t, func() error { _, err := server.Write(make([]byte, 64<<20)); return err })
			wantTimeout(t, err, idle.ReasonShed)
			var timeout *idle.TimeoutError
			if errors.As(err, &timeout) && timeout.Cause != "max_unsent" {
				t.Errorf("the cause is %q", timeout.Cause)
			}
			if st := tracker.Stats(); st.Causes["max_unsent"] != 1 {
				t.Errorf("%+v", st.Causes)
			}
		})
	}
	// io.Copy would use sendfile and splice, which don't report that they wait.
	for name, source := range map[string]func() io.Reader{
		"from a file": func() io.Reader {
			file, err := os.Create(filepath.Join(t.TempDir(), "large"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { file.Close() })
			if err := file.Truncate(64 << 20); err != nil {
				t.Fatal(err)
			}
			return file
		},
		"from a connection": func() io.Reader {
			source, feed := tcpPair(t)
			go feed.Write(make([]byte, 64<<20))
			return source
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := connect(t, newTracker(t, idle.Policy{WriteTimeout: time.Hour}), &Options{MaxUnsent: 8 << 10})
			err, _ := await(t, func() error { _, err := io.Copy(server, source()); return err })
			wantTimeout(t, err, idle.ReasonShed)
		})
	}
	t.Run("high enough", func(t *testing.T) {
		server, client := connect(t, newTracker(t, idle.Policy{WriteTimeout: time.Hour}), &Options{MaxUnsent: 1 << 30})
		go readAll(net.Conn(client))
		if _, err := server.Write(make([]byte, 32<<20)); err != nil {
			t.Error(err)
		}
	})
}
