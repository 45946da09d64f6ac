//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A drain reads a few bytes every so often, until told to stop, or it fails.
type drain struct {
	bytes int
	every time.Duration

	stop, ended chan struct{}
	pace        metronome // to be read when ended
}

func startDrain(client net.Conn, bytes int, every time.Duration) *drain {
	d := &drain{bytes: bytes, every: every, stop: make(chan struct{}), ended: make(chan struct{})}
	go d.run(client)
	return d
}

func (d *drain) run(client net.Conn) {
	defer close(d.ended)
	defer d.pace.beat() // the last gap counts too
	b := make([]byte, d.bytes)
	for {
		d.pace.beat()
		client.SetReadDeadline(time.Now().Add(d.every))
		if _, err := io.ReadFull(client, b); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		select {
		case <-d.stop:
			return
		case <-time.After(d.every):
		}
	}
}

func (d *drain) end() {
	close(d.stop)
	<-d.ended
}

// A sender makes what the server sends, and returns how it does.
type sender func(*testing.T) func(*Conn) error

// senders are the ways of sending much.
var senders = map[string]sender{"one Write": write(8 << 20), "a file": func(t *testing.T) func(*Conn) error {
	file := randomFile(t, 8<<20)
	return func(c *Conn) error { _, err := io.Copy(c, file); return err }
}}

// write sends n bytes at once.
func write(n int) sender {
	b := make([]byte, n)
	return func(*testing.T) func(*Conn) error {
		return func(c *Conn) error { _, err := c.Write(b); return err }
	}
}

// writeBits writes without end, a little at a time.
func writeBits(*testing.T) func(*Conn) error {
	return func(c *Conn) error {
		for b := make([]byte, 1000); ; {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
	}
}

// A slow is a client that reads slowly, and its server.
type slow struct {
	policy  idle.Policy
	send    sender
	bytes   int // that the client reads
	every   time.Duration
	network string // "tcp" if empty
	wide    bool   // the server has the buffer that the kernel gives it
	before  int    // bytes that are sent and read before the connection is wrapped
	wrap    func(net.Conn) net.Conn
}

// begin connects and starts the client.
func (s slow) begin(t *testing.T, tracker *idle.Tracker) (server *Conn, client net.Conn, d *drain) {
	t.Helper()
	needLinux(t)
	network, address := "tcp", "127.0.0.1:0"
	if s.network != "" {
		network, address = s.network, filepath.Join(t.TempDir(), "s")
	}
	bare, client := socketPair(t, network, address)
	if s.network == "" {
		size := 16 << 10
		if s.before > 0 {
			size = 64 << 10 // a buffer that shrinks later would close the window for a while
		}
		client.(*net.TCPConn).SetReadBuffer(size)
	}
	go bare.Write(make([]byte, s.before))
	if _, err := io.ReadFull(client, make([]byte, s.before)); err != nil {
		t.Fatal(err)
	}
	if s.network == "" && !s.wide { // so that the server soon feels what the client reads
		bare.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	if s.wrap != nil {
		bare = s.wrap(bare)
	}
	server = wrapped(t, bare, tracker, nil)
	if s.every > 0 {
		d = startDrain(client, s.bytes, s.every)
	}
	return server, client, d
}

// A client that reads slowly, but faster than the policy asks for, isn't cut, whichever limit there is.
func TestSlowButSteadyReaderIsNeverCut(t *testing.T) {
	t.Parallel()
	const limit, ms = 2 * time.Second, time.Millisecond // the kernel moves bytes in bursts, larger ones on a busy machine
	rate := idle.Rate{BytesPerSecond: 20 << 10, Grace: limit}
	type test struct {
		slow
		long time.Duration
	}
	tests := map[string]test{
		// The kernel has taken all of the response, so no Write waits, and the server computes. Nobody reads.
		"of what the kernel holds": {slow{policy: idle.Policy{IdleTimeout: 700 * ms, ReadTimeout: 700 * ms}, send: write(1 << 20), bytes: 8 << 10, every: 20 * ms, wide: true}, limit},
		// Bytes that were sent before are no debt.
		"of what is wrapped late": {slow{policy: idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 20 << 10, Grace: time.Second}}, send: write(8 << 20), bytes: 16 << 10, every: 50 * ms, before: 4 << 20}, 3 * time.Second},
		// Small writes fit into the kernel's buffer, and don't wait. AwaitAcked makes them count as a write that waits.
		"of small writes": {slow{policy: idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 20 << 10, Grace: time.Second}}, send: func(t *testing.T) func(*Conn) error {
			return func(c *Conn) error {
				_, err := c.Write(make([]byte, 1<<20))
				if !c.conn().AwaitAcked() {
					t.Error("all is acknowledged, though the client hasn't read")
				}
				return err
			}
		}, bytes: 16 << 10, every: 50 * ms, wide: true}, limit},
		"of a Unix socket, by WriteTimeout": {slow{policy: idle.Policy{WriteTimeout: limit}, send: write(1 << 20), bytes: 4 << 10, every: 50 * ms, network: "unix"}, 3 * limit},
		// The writer is not woken before most of the queue is empty.
		"of a Unix socket, by IdleTimeout": {slow{policy: idle.Policy{IdleTimeout: limit}, send: write(1 << 20), bytes: 4 << 10, every: 50 * ms, network: "unix"}, 3 * limit},
		// The client reads a step in 2 s.
		"of a Unix socket, by MinWriteRate": {slow{policy: idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 4 << 10, Grace: 500 * ms}}, send: write(1 << 20), bytes: 1 << 10, every: 125 * ms, network: "unix"}, 10 * time.Second},
	}
	for how, send := range senders {
		for name, p := range map[string]idle.Policy{
			"by WriteTimeout": {WriteTimeout: limit},
			"by IdleTimeout":  {IdleTimeout: limit},
			"by MinWriteRate": {MinWriteRate: rate},
			"by any":          {IdleTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, MinReadRate: rate, MinWriteRate: rate},
		} {
			tests[how+" "+name] = test{slow{policy: p, send: send, bytes: 8 << 10, every: 50 * ms}, 5 * time.Second}
		}
	}
	g := together{t: t}
	defer g.wait.Wait()
	for name, c := range tests {
		g.run(name, func(t *testing.T) {
			send := c.send(t)
			server, client, d := c.begin(t, newTracker(t, c.policy))
			client.Write([]byte("request")) // after which no Read waits
			if err := read1(server); err != nil {
				t.Fatal(err)
			}
			d.mustNotBeCut(t, server, c.long, func() { send(server) })
		})
	}
}

// mustNotBeCut fails if the server's connection is ended while it sends for so long.
func (d *drain) mustNotBeCut(t *testing.T, server *Conn, long time.Duration, send func()) {
	t.Helper()
	sent := make(chan struct{})
	go func() { defer close(sent); send() }()
	time.Sleep(long)
	err := server.Timeout()
	d.end()
	if err != nil {
		d.pace.mustHaveBeen(t, err.Limit/2)
		t.Error(err)
	}
	server.Close()
	<-sent
}

// A minimum write rate that SetPolicy switches on, before a write or while it waits, is for
// what the peer takes, not for whole steps: a reader that is much faster is not ended.
func TestSetPolicySwitchesMinWriteRateOn(t *testing.T) {
	t.Parallel()
	g := together{t: t}
	defer g.wait.Wait()
	for _, network := range []string{"", "unix"} {
		for name, waits := range map[string]bool{"before the write": false, "while it waits": true} {
			g.run(network+" "+name, func(t *testing.T) {
				tracker := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
				// 20 kB/s, so a step of 128 kB takes more than the Grace. On loopback, whose packets are
				// large, the peer's kernel acknowledges only half a buffer at a time, and the server's
				// learns of that by probes that are ever rarer, so a quiet time of 3 s is possible.
				server, _, d := slow{network: network, wide: true, bytes: 10 << 10, every: 500 * time.Millisecond}.begin(t, tracker)
				write := func() { server.Write(make([]byte, 64<<20)) }
				if waits {
					go write()
					time.Sleep(200 * time.Millisecond)
				}
				if err := tracker.SetPolicy(idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 2000, Grace: 5 * time.Second}}); err != nil {
					t.Fatal(err)
				}
				d.mustNotBeCut(t, server, 8*time.Second, write)
			})
		}
	}
}

// Input that comes while OnTimeout runs keeps the connection, though OnTimeout returns false.
// From then on the kernel is asked about output as before, so a slow reader is not ended.
func TestSlowReaderAfterARefusal(t *testing.T) {
	t.Parallel()
	needLinux(t)
	inOnTimeout, goOn := make(chan bool), make(chan bool)
	var asked atomic.Bool
	tracker := newTracker(t, idle.Policy{IdleTimeout: 300 * time.Millisecond})
	server, client := connect(t, tracker, &Options{OnTimeout: func(*Conn, *idle.TimeoutError) bool {
		if !asked.Swap(true) {
			inOnTimeout <- true
			<-goOn
		}
		return false
	}})
	writing, err := tracker.Phase(idle.Policy{WriteTimeout: 3 * time.Second}) // the kernel moves bytes in bursts
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() { read <- read1(server) }()
	<-inOnTimeout
	client.Write([]byte("x"))
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	server.Enter(writing)
	goOn <- true
	client.SetReadBuffer(64 << 10)
	d := startDrain(client, 16<<10, 100*time.Millisecond)
	d.mustNotBeCut(t, server, 8*time.Second, func() { server.Write(make([]byte, 64<<20)) })
}

// A client that reads too slowly, or nothing, is cut by the limit that it passes, and not before.
func TestSlowReaderIsCut(t *testing.T) {
	t.Parallel()
	const limit, ms = 500 * time.Millisecond, time.Millisecond
	type test struct {
		slow
		reason idle.Reason
		limit  time.Duration
		stops  time.Duration // after which the client reads no more
		most   time.Duration // when it has to be cut at the latest; 0 for any time
		first  func(server *Conn, client net.Conn, tracker *idle.Tracker) error
	}
	rate := func(bytes int, grace time.Duration) idle.Policy {
		return idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: bytes, Grace: grace}}
	}
	then := func(send sender, more func(*Conn) error) sender {
		return func(t *testing.T) func(*Conn) error {
			write := send(t)
			return func(c *Conn) error {
				if err := write(c); err != nil {
					return err
				}
				return more(c)
			}
		}
	}
	const much, part = 4 << 20, 16 << 10 // two minutes' worth, and what fits into the buffers
	withoutWait := func(server *Conn, client net.Conn, _ *idle.Tracker) error {
		for range much / part {
			if _, err := server.Write(make([]byte, part)); err != nil {
				return err
			}
			if _, err := io.ReadFull(client, make([]byte, part)); err != nil {
				return err
			}
		}
		return nil
	}
	phaseBefore := func(server *Conn, client net.Conn, tracker *idle.Tracker) error {
		taken := make(chan error, 1)
		go func() { _, err := io.CopyN(io.Discard, client, much); taken <- err }()
		if _, err := server.Write(make([]byte, much)); err != nil {
			return err
		}
		err := <-taken
		server.Enter(tracker.Initial())
		return err
	}
	after := slow{policy: rate(32<<10, time.Second), send: write(32 << 20), wide: true}
	inWrapper := after
	inWrapper.wrap = func(nc net.Conn) net.Conn { return netConned{nc} }
	tests := map[string]test{
		// What the client has taken before buys no time.
		"takes nothing after what no write waited for":       {slow: after, reason: idle.ReasonMinWriteRate, limit: time.Second, most: patience / 4, first: withoutWait},
		"takes nothing after the phase before":               {slow: after, reason: idle.ReasonMinWriteRate, limit: time.Second, most: patience / 4, first: phaseBefore},
		"takes nothing after the phase before, in a wrapper": {slow: inWrapper, reason: idle.ReasonMinWriteRate, limit: time.Second, most: patience / 4, first: phaseBefore},
		// What the kernel holds is not taken. Ours holds a MiB or more, more than a minute's worth.
		"takes nothing": {slow: slow{policy: rate(16<<10, 200*ms), send: write(32 << 20), wide: true}, reason: idle.ReasonMinWriteRate, limit: 200 * ms, most: patience / 4},
		// What was sent before is no advance: that is a minute's worth.
		"takes nothing more of what is wrapped late": {slow: slow{policy: rate(32<<10, 200*ms), send: write(32 << 20), before: 2 << 20, wide: true}, reason: idle.ReasonMinWriteRate, limit: 200 * ms, most: patience / 4},
		// The kernels may pass a burst on before the write waits, so it may buy time or not.
		"takes a burst": {slow: slow{policy: rate(16<<10, limit), send: write(32 << 20), bytes: 16 << 10, every: limit / 2, wide: true}, reason: idle.ReasonMinWriteRate, limit: limit, stops: limit / 4},
		"polled": {slow: slow{policy: idle.Policy{WriteTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 1, Grace: 10 * patience}}, send: func(*testing.T) func(*Conn) error {
			return func(c *Conn) error { return pollWrites(c, 20*ms, largeStep) }
		}, wide: true}, reason: idle.ReasonWrite, limit: limit},
		// It reads at an eighth of the rate.
		"of a Unix socket, below the rate":       {slow: slow{policy: rate(64<<10, limit), send: write(1 << 20), bytes: 1 << 10, every: 125 * ms, network: "unix"}, reason: idle.ReasonMinWriteRate, limit: limit},
		"of a Unix socket, idle, in a write":     {slow: slow{policy: idle.Policy{IdleTimeout: limit}, send: then(write(8<<20), read1Of), network: "unix"}, reason: idle.ReasonIdle, limit: limit, most: 3 * limit / 2},
		"of a Unix socket, idle, after a write":  {slow: slow{policy: idle.Policy{IdleTimeout: limit}, send: then(write(20<<10), read1Of), network: "unix"}, reason: idle.ReasonIdle, limit: limit, most: 3 * limit / 2},
		"of a Unix socket, write":                {slow: slow{policy: idle.Policy{WriteTimeout: limit}, send: write(8 << 20), network: "unix"}, reason: idle.ReasonWrite, limit: limit, most: 3 * limit / 2},
		"of a Unix socket, idle, small writes":   {slow: slow{policy: idle.Policy{IdleTimeout: limit}, send: writeBits, network: "unix"}, reason: idle.ReasonIdle, limit: limit, most: 3 * limit / 2},
		"of a Unix socket, write, and then idle": {slow: slow{policy: idle.Policy{WriteTimeout: limit, IdleTimeout: 3 * limit / 2}, send: writeBits, network: "unix"}, reason: idle.ReasonWrite, limit: limit, most: 3 * limit / 2},
	}
	if !tellsWaits(t) {
		delete(tests, "takes nothing after what no write waited for")
	}
	for how, send := range senders {
		tests["stops, "+how] = test{slow: slow{policy: idle.Policy{WriteTimeout: time.Second}, send: send, bytes: 8 << 10, every: 20 * ms},
			reason: idle.ReasonWrite, limit: time.Second, stops: 2 * time.Second}
		// 4 KiB every 100 ms are 40 KiB/s, too little.
		tests["below the rate, "+how] = test{slow: slow{policy: idle.Policy{WriteTimeout: 5 * time.Second, MinWriteRate: idle.Rate{BytesPerSecond: 400 << 10, Grace: limit}},
			send: send, bytes: 4 << 10, every: 100 * ms}, reason: idle.ReasonMinWriteRate, limit: limit}
	}
	g := together{t: t}
	defer g.wait.Wait()
	for name, c := range tests {
		g.run(name, func(t *testing.T) {
			inTime := intime.Of(t, max(limit, c.most)/4)
			send := c.send(t)
			tracker := newTracker(t, c.policy)
			server, client, d := c.begin(t, tracker)
			if c.first != nil {
				if err := c.first(server, client, tracker); err != nil {
					t.Fatal(err)
				}
			}
			stopped := make(chan time.Time, 1)
			if c.stops > 0 {
				time.AfterFunc(c.stops, func() { stopped <- time.Now(); d.end() })
			} else if d != nil {
				defer d.end()
			}
			begun := time.Now()
			err, at := await(t, func() error { return send(server) })
			wantTimeout(t, err, c.reason)
			notBefore(t, at, begun, c.limit)
			if took := at.Sub(begun); c.most > 0 && took > c.most {
				inTime.Errorf("cut after %v", took)
			}
			if c.stops > 0 {
				if stop := <-stopped; c.reason == idle.ReasonWrite && at.Before(stop) {
					<-d.ended
					d.pace.mustHaveBeen(t, c.limit/3)
					t.Errorf("cut %v before the client stopped", stop.Sub(at))
				}
			}
		})
	}
}

func read1Of(c *Conn) error { return read1(c) }

// A write that failed at the user's own deadline leaves nothing waiting. The
// limit on writing must not feed the limit on silence from then on.
func TestAbandonedWriteDoesNotPutOffIdleTimeout(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{
		IdleTimeout: 1200 * time.Millisecond, WriteTimeout: 400 * time.Millisecond}), nil)
	inTime := intime.Of(t, 100*time.Millisecond)
	server.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	err, _ := await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
	wantUserTimeout(inTime, err)
	go readAll(client)
	err, _ = await(t, func() error { return read1(server) })
	wantTimeout(t, err, idle.ReasonIdle)
}

// tellsWaits reports whether this system tells which writes wait.
func tellsWaits(t *testing.T) bool {
	bare, _ := tcpPair(t)
	_, tells := kernel.Stream(bare, nil)
	return tells
}

// TestUnsentIsCounted: a visit finds how many bytes wait for a peer that doesn't read.
func TestUnsentIsCounted(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{WriteTimeout: time.Hour})
	connect(t, tracker, nil) // for this one nothing waits
	server, client := connect(t, tracker, nil)
	if !tellsWaits(t) {
		t.Skip("this system doesn't tell")
	}
	unsent := func() map[any]int {
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
	done := make(chan error)
	go func() { _, err := server.Write(make([]byte, 32<<20)); done <- err }()
	eventually(t, "bytes wait for the client", func() bool {
		waiting := unsent()
		return len(waiting) == 1 && waiting[server] >= 1000
	})
	go readAll(client)
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "the client has read what was in the kernel's buffers", func() bool { return len(unsent()) == 0 })
}
