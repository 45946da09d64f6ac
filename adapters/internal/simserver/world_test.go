package simserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

const (
	Tick     = 10 * time.Millisecond
	Late     = 2*Tick + Tick/8 + time.Millisecond
	Buffer   = 8 << 10     // of the network, in each direction
	LateAddr = time.Second // how long RemoteAddr may block, in some worlds
)

// A Server is a server under test, with the limits of its adapter.
type Server struct {
	Serve    func() error
	Shutdown func(context.Context, idle.Drain) error
	Stats    func() httplimits.Stats
	Tracker  *idle.Tracker
	Rest     time.Duration // how long the server's goroutines may run after its end
}

// A World is a server, its clients, and the ledger of what they were promised.
type World struct {
	T    *testing.T
	Seed uint64
	Net  *simnet.Listener

	Kernel simnet.Kernel // what the network reports about sockets
	Evicts bool          // idle connections are evicted all the time

	mu      sync.Mutex
	rng     *rand.Rand
	begun   map[string]bool        // requests whose handler has begun
	ended   map[string]End         // connections that a limit has ended, by address
	told    map[string]int         // how often Options.OnEnds got a connection, by label
	reasons map[idle.Reason]uint64 // and by reason
	drained time.Time              // when a drain has reached all connections
}

// An End says when a limit ended a connection, and which limit.
type End struct {
	At  time.Time
	Err *idle.TimeoutError
}

// Run runs the world of a seed in virtual time until everything in it has ended. start starts the
// server, and each function in kinds is what one kind of client does.
func Run(t *testing.T, seed uint64, limits httplimits.Timeouts, start func(w *World, ln net.Listener, limits httplimits.Timeouts) (Server, error), kinds []func(*Client)) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := &World{T: t, Seed: seed, rng: rng, begun: map[string]bool{}, ended: map[string]End{}, told: map[string]int{}, reasons: map[idle.Reason]uint64{}}
		lateAddr := time.Duration(max(0, rng.IntN(3)-1)) * LateAddr
		w.Kernel = simnet.Kernel(rng.IntN(3))
		w.Evicts = seed%5 == 4
		w.Net = simnet.Listen(simnet.Config{Seed: seed, Buffer: Buffer, LateAddr: lateAddr, Kernel: w.Kernel})
		limits.Idle.Tick, limits.Idle.OnEnds = Tick, w.onEnds
		limits.OnEnd = w.onEnd
		s, err := start(w, w.Net, limits)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve() }()

		over := make(chan bool)
		go func() {
			for w.Evicts {
				select {
				case <-over:
					return
				case <-time.After(50 * time.Millisecond):
					s.Tracker.EvictIdle(1)
				}
			}
		}()

		var clients sync.WaitGroup
		for i := range 20 {
			c := &Client{World: w, Rand: rand.New(rand.NewPCG(seed, uint64(i)+1)), Name: fmt.Sprint(i)}
			clients.Go(func() {
				time.Sleep(time.Duration(c.Rand.IntN(3000)) * time.Millisecond)
				kinds[c.Rand.IntN(len(kinds))](c)
			})
		}
		w.mu.Lock()
		early, after := rng.IntN(2) == 0, time.Duration(1000+rng.IntN(10_000))*time.Millisecond
		w.mu.Unlock()
		if early {
			time.Sleep(after)
		} else {
			clients.Wait()
		}
		w.drain(s)
		clients.Wait()
		<-served
		close(over)
		time.Sleep(s.Rest + time.Minute) // for callbacks that are still running; a goroutine that remains fails the test
		w.audit(s)
	})
}

// drain shuts the server down.
func (w *World) drain(s Server) {
	const over, force = time.Second, 2 * time.Minute
	w.mu.Lock()
	w.drained = time.Now().Add(over + 2*Tick)
	w.mu.Unlock()
	begun := time.Now()
	if err := s.Shutdown(w.T.Context(), idle.Drain{Duration: over, ForceAfter: force}); err != nil {
		w.Errorf("Shutdown: %v", err)
	}
	if took := time.Since(begun); took > force+time.Second {
		w.Errorf("Shutdown took %v", took)
	}
}

// audit checks the counts after all clients have left.
func (w *World) audit(s Server) {
	st := s.Stats()
	if st.Live != 0 || st.Panics != 0 || st.EndsLost != 0 {
		w.Errorf("left: %d, panics: %d, ends lost: %d", st.Live, st.Panics, st.EndsLost)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	total := 0
	for label, n := range w.told {
		if total += n; n > 1 && label != "" {
			w.Errorf("OnEnds was told %d times of %s", n, label)
		}
	}
	ended := map[idle.Reason]uint64{}
	for _, of := range st.ByPhase {
		for reason, n := range of {
			ended[reason] += n
		}
	}
	for reason, n := range ended {
		if w.reasons[reason] != n {
			w.Errorf("OnEnds was told of %d that ended by %v, and %d are counted", w.reasons[reason], reason, n)
		}
	}
	if n := w.reasons[0]; n != st.Closed {
		w.Errorf("OnEnds was told of %d that were closed, and %d are counted", n, st.Closed)
	}
	if total != w.Net.Accepted() {
		w.Errorf("OnEnds was told %d times of %d connections", total, w.Net.Accepted())
	}
}

// Errorf fails the test with a message that begins with the seed.
func (w *World) Errorf(format string, args ...any) {
	w.T.Helper()
	w.T.Errorf("seed %d: %s", w.Seed, fmt.Sprintf(format, args...))
}

// IntN returns a random number below n. It may be called by handlers and callbacks.
func (w *World) IntN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// Begin records that a handler has begun to serve a request.
func (w *World) Begin(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[id] = true
}

// Executed reports whether a handler has begun to serve a request.
func (w *World) Executed(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[id]
}

// Drained returns when a drain has reached all connections, or the zero time.
func (w *World) Drained() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// onEnd is the limits' OnEnd. It uses LocalAddr because RemoteAddr may block.
func (w *World) onEnd(nc net.Conn, err *idle.TimeoutError) {
	w.mu.Lock()
	w.ended[nc.LocalAddr().String()] = End{time.Now(), err}
	pause := time.Duration(w.rng.IntN(3)) * Tick
	w.mu.Unlock()
	time.Sleep(pause) // as if it wrote a farewell; the client may write meanwhile
}

func (w *World) onEnds(ends []idle.End) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range ends {
		w.told[strings.Clone(e.Label)]++
		w.reasons[e.Reason]++
	}
}

// A Client has one connection at a time.
type Client struct {
	*World
	Rand *rand.Rand
	Name string
	Conn *simnet.Conn

	requests int
}

// Dial connects. It returns false if the server no longer accepts.
func (c *Client) Dial() bool {
	begun := time.Now()
	nc, err := c.Net.Dial()
	if err != nil {
		return false
	}
	if took := time.Since(begun); took > Late {
		c.Errorf("%v was accepted after %v", nc.LocalAddr(), took)
	}
	c.Conn = nc
	return true
}

// NextID returns the id of the client's next request.
func (c *Client) NextID() string {
	c.requests++
	return fmt.Sprint(c.Name, ".", c.requests)
}

// Pause sleeps for less than n milliseconds.
func (c *Client) Pause(n int) { time.Sleep(time.Duration(c.Rand.IntN(n)) * time.Millisecond) }

// End returns how the current connection was ended.
func (c *Client) End() End {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[c.Conn.LocalAddr().String()]
}

// WantEnd checks that the given limit, counted from since, ends the connection. It may do so
// later by more.
func (c *Client) WantEnd(since time.Time, setting string, limit, more time.Duration) {
	time.Sleep(time.Until(since.Add(limit + more + Late + 1))) // 1 ns more, so that everybody else has acted
	e := c.End()
	switch {
	case !c.Drained().IsZero() || c.Evicts: // which may have ended it before the limit
	case e.Err == nil:
		c.Errorf("%v lives on %v after %s of %v", c.Conn.LocalAddr(), time.Since(since), setting, limit)
	case e.Err.Setting != setting:
		c.Errorf("%v was ended by %s, want %s", c.Conn.LocalAddr(), e.Err.Setting, setting)
	case e.At.Sub(since) < limit || e.At.Sub(since) > limit+more+Late:
		c.Errorf("%v was ended by %s after %v, want %v to %v", c.Conn.LocalAddr(), setting, e.At.Sub(since), limit, limit+more+Late)
	}
	c.Conn.Close()
}
