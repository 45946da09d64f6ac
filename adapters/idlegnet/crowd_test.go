//go:build proof

package idlegnet

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestCrowd has many connections go stale at once while others keep echoing. Set IDLEGNET_CROWD
// to "7500 500" to have so many stale and active ones.
func TestCrowd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	const limit = 4 * time.Second
	stale, active := 2000, 100
	fmt.Sscan(os.Getenv("IDLEGNET_CROWD"), &stale, &active)
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: limit, WriteTimeout: limit}, nil, gnet.WithNumEventLoop(2))
	begun := time.Now()
	conns := make([]net.Conn, stale)
	for i := range conns {
		conns[i] = dial(t, s.address)
	}
	took, stop := make([][]time.Duration, active), make(chan struct{})
	var echoing sync.WaitGroup
	finish := sync.OnceFunc(func() { close(stop); echoing.Wait() })
	defer finish()
	for i := range active {
		nc := dial(t, s.address)
		echoing.Go(func() {
			next := time.NewTicker(time.Duration(active) * 100 * time.Microsecond) // 10,000 echoes a second
			defer next.Stop()
			for {
				select {
				case <-stop:
					return
				case <-next.C:
				}
				begun := time.Now()
				if err := echo(nc, "hello"); err != nil {
					t.Error("an active one was closed: ", err)
					return
				}
				took[i] = append(took[i], time.Since(begun))
			}
		})
	}
	said, late := make([]time.Time, stale), make([]time.Duration, stale)
	for i, nc := range conns {
		said[i] = time.Now()
		nc.Write([]byte{'x'}) // which fails if the first was too long ago
	}
	if setup := time.Since(begun); setup > limit/2 {
		t.Skipf("inconclusive: the machine let the clients begin only within %v", setup)
	}
	var closed sync.WaitGroup
	for i, nc := range conns {
		closed.Go(func() {
			io.Copy(io.Discard, nc)
			late[i] = time.Since(said[i]) - limit
		})
	}
	closed.Wait()
	finish()
	st, echoes := s.Stats(), slices.Concat(took...)
	slices.Sort(late)
	slices.Sort(echoes)
	t.Logf("timeouts: median %v late, the last %v; %d passes took %v, the longest %v", late[stale/2], late[stale-1], st.Passes, st.PassTotal, st.Longest)
	t.Logf("%d echoes: p50 %v, p99 %v", len(echoes), echoes[len(echoes)/2], echoes[len(echoes)*99/100])
	if late[0] < 0 {
		t.Errorf("one was closed %v early", -late[0])
	}
	if got := st.TimedOut[idle.ReasonIdle]; got != uint64(stale) {
		t.Errorf("%d timeouts of %d", got, stale)
	}
}
