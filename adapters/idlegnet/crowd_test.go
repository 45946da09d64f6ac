//go:build proof

package idlegnet

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// crowdEnv makes TestCrowd a large one (set it to "15000 1000" to have so many
// stale and active connections), and tells its child process what to do.
const crowdEnv = "IDLEGNET_CROWD"

// crowd is what the clients, in a process of their own, have seen.
type crowd struct {
	Early     int           // closed before the limit
	Failed    int           // active ones that were closed
	Setup     time.Duration // until all had said something
	Closing   time.Duration // from the first to the last that was closed
	Echoes    [2]int        // of the active ones, before and while others were closed
	P50, P99  [2]time.Duration
	Max       [2]time.Duration
	LastAfter time.Duration // the latest that one was closed after its limit
	HalfAfter time.Duration // half of them were closed by then, each after its own
}

// TestCrowd has many connections go stale at once while others keep echoing.
func TestCrowd(t *testing.T) {
	const limit = 4 * time.Second
	stale, active := 2000, 100
	if testing.Short() {
		t.Skip("it takes a while")
	}
	fmt.Sscan(os.Getenv(crowdEnv), &stale, &active)
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: limit, WriteTimeout: limit}, nil, tcp(), gnet.WithNumEventLoop(2))
	dial(t, s.address).Close() // so that it listens
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrowdChild$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", crowdEnv, s.address, stale, active, limit))
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		t.Fatalf("the clients failed: %v\n%s", err, out)
	}
	var c crowd
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if c.Setup > limit/2 {
		t.Skipf("inconclusive: the machine let the clients begin only within %v", c.Setup)
	}
	st := s.Stats()
	t.Logf("%d stale ones were closed within %v, the last %v after its limit, the median %v; %d came late; %d looks, %d relinks",
		stale, c.Closing, c.LastAfter, c.HalfAfter, st.Deferred, st.Checks, st.EarlyReschedules)
	t.Logf("%d passes took %v, the longest %v", st.Passes, st.PassTotal, st.Longest)
	for i, when := range []string{"before", "while they were closed"} {
		t.Logf("%d active ones %s: %d echoes, p50 %v, p99 %v, max %v", active, when, c.Echoes[i], c.P50[i], c.P99[i], c.Max[i])
	}
	if c.Early > 0 || c.Failed > 0 {
		t.Errorf("%d were closed early, %d though active", c.Early, c.Failed)
	}
	if got := st.TimedOut[idle.ReasonIdle]; got != uint64(stale) {
		t.Errorf("%d timeouts of %d", got, stale)
	}
}

// TestCrowdChild is the clients of TestCrowd.
func TestCrowdChild(t *testing.T) {
	var address string
	var stale, active int
	var limit time.Duration
	if n, _ := fmt.Sscan(os.Getenv(crowdEnv), &address, &stale, &active, &limit); n < 4 {
		t.Skip("there is no parent")
	}
	begun := time.Now()
	conns := make([]net.Conn, stale)
	for i := range conns {
		conns[i] = dial(t, address)
		conns[i].SetDeadline(time.Time{})
	}
	var failed atomic.Int64
	var phase atomic.Int64
	stop := make(chan struct{})
	var echoing sync.WaitGroup
	times := make([][numPhases][]time.Duration, active)
	for i := range active {
		nc := dial(t, address)
		nc.SetDeadline(time.Time{})
		echoing.Go(func() {
			period := time.Duration(active) * 100 * time.Microsecond // 10,000 echoes a second
			next := time.NewTicker(period)
			defer next.Stop()
			for {
				select {
				case <-stop:
					return
				case <-next.C:
				}
				when, begun := phase.Load(), time.Now()
				if err := echo(nc, "hello"); err != nil {
					failed.Add(1)
					return
				}
				times[i][when] = append(times[i][when], time.Since(begun))
			}
		})
	}
	c := watch(conns, begun, limit, &phase)
	close(stop)
	echoing.Wait()
	c.Failed = int(failed.Load())
	for i, when := range []int{quietly, ending} {
		var all []time.Duration
		for _, of := range times {
			all = append(all, of[when]...)
		}
		slices.Sort(all)
		if c.Echoes[i] = len(all); len(all) > 0 {
			c.P50[i], c.P99[i], c.Max[i] = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(c); err != nil {
		t.Fatal(err)
	}
	os.Exit(0) // before the testing package prints anything
}

// The phases of the clients' lives.
const (
	starting = iota // until a while after the stale ones have said something
	quietly         // until the first is closed
	ending          // until the last is
	numPhases
)

// watch has all connections say something, as good as at once, and waits until
// they are closed.
func watch(conns []net.Conn, begun time.Time, limit time.Duration, phase *atomic.Int64) (c crowd) {
	said := make([]time.Time, len(conns))
	ends := make([]time.Time, len(conns))
	for i, nc := range conns {
		said[i] = time.Now()
		nc.Write([]byte{'x'}) // which fails if the first was too long ago
	}
	c.Setup = time.Since(begun)
	time.AfterFunc(limit/4, func() { phase.CompareAndSwap(starting, quietly) })
	var closed sync.WaitGroup
	for i, nc := range conns {
		closed.Go(func() {
			io.Copy(io.Discard, nc)
			ends[i] = time.Now()
			phase.Store(ending)
		})
	}
	closed.Wait()
	late := make([]time.Duration, len(ends))
	for i := range ends {
		late[i] = ends[i].Sub(said[i]) - limit
		if late[i] < 0 {
			c.Early++
		}
	}
	slices.Sort(late)
	c.LastAfter, c.HalfAfter = late[len(late)-1], late[len(late)/2]
	c.Closing = slices.MaxFunc(ends, time.Time.Compare).Sub(slices.MinFunc(ends, time.Time.Compare))
	return c
}
