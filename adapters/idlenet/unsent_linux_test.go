//go:build linux && !386 && !s390x

package idlenet

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

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
	t.Run("high enough", func(t *testing.T) {
		server, client := connect(t, newTracker(t, idle.Policy{WriteTimeout: time.Hour}), &Options{MaxUnsent: 1 << 30})
		go readAll(net.Conn(client))
		if _, err := server.Write(make([]byte, 32<<20)); err != nil {
			t.Error(err)
		}
	})
}
