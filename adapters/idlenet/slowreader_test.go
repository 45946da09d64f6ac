//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// narrow makes the buffers between server and client small, so that what the
// client takes is soon felt by the server.
func narrow(t *testing.T, server *Conn, client *net.TCPConn) {
	t.Helper()
	if err := client.SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	if err := server.NetConn().(*net.TCPConn).SetWriteBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
}

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

// The ways of sending much. What they send is made before they are called.
var senders = map[string]func(*testing.T) func(*Conn) error{
	"one Write": func(*testing.T) func(*Conn) error {
		b := make([]byte, 8<<20)
		return func(c *Conn) error {
			_, err := c.Write(b)
			return err
		}
	},
	"sendfile": func(t *testing.T) func(*Conn) error {
		file := randomFile(t, 8<<20)
		return func(c *Conn) error {
			_, err := c.ReadFrom(file)
			return err
		}
	},
	"io.Copy of a file": func(t *testing.T) func(*Conn) error {
		file := randomFile(t, 8<<20)
		return func(c *Conn) error {
			_, err := io.Copy(c, file)
			return err
		}
	},
}

func TestSlowButSteadyReaderIsNeverCut(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit, long = 2 * time.Second, 5 * time.Second // the kernel moves bytes in bursts, larger ones on a busy machine
	g := together{t: t}
	defer g.wait.Wait()
	for how, send := range senders {
		for name, policy := range map[string]idle.Policy{
			"by WriteTimeout": {WriteTimeout: limit},
			"by IdleTimeout":  {IdleTimeout: limit},
			"by MinWriteRate": {MinWriteRate: idle.Rate{BytesPerSecond: 20 << 10, Grace: limit}},
			"by any":          {WriteTimeout: limit, IdleTimeout: limit, MinWriteRate: idle.Rate{BytesPerSecond: 20 << 10, Grace: limit}},
		} {
			g.run(how+" "+name, func(t *testing.T) {
				send := send(t)
				server, client := connect(t, newTracker(t, policy), nil)
				narrow(t, server, client)
				d := startDrain(client, 8<<10, 50*time.Millisecond)
				result := make(chan error, 1)
				go func() { result <- send(server) }()
				select {
				case err := <-result:
					d.end()
					d.pace.mustHaveBeen(t, limit/2)
					t.Errorf("ended with %v", err)
				case <-time.After(long):
					d.end()
				}
				server.Close()
			})
		}
	}
}

// A download: the server reads a request, and then writes for longer than all
// its limits. ReadTimeout does not count meanwhile, and the client drains.
func TestSlowDownloadAfterRequestIsNeverCut(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit, long = 2 * time.Second, 5 * time.Second // the kernel moves bytes in bursts, larger ones on a busy machine
	rate := idle.Rate{BytesPerSecond: 20 << 10, Grace: limit}
	g := together{t: t}
	defer g.wait.Wait()
	for name, policy := range map[string]idle.Policy{
		"idle, read":               {IdleTimeout: limit, ReadTimeout: limit},
		"read, write":              {ReadTimeout: limit, WriteTimeout: limit},
		"idle, read, write":        {IdleTimeout: limit, ReadTimeout: limit, WriteTimeout: limit},
		"idle, read, write, rates": {IdleTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, MinReadRate: rate, MinWriteRate: rate},
	} {
		g.run(name, func(t *testing.T) {
			send := senders["one Write"](t)
			server, client := connect(t, newTracker(t, policy), nil)
			narrow(t, server, client)
			inTime := intime.Of(t, limit/3)
			client.Write([]byte("request"))
			if err := read1(server); err != nil {
				inTime.Fatal(err)
			}
			d := startDrain(client, 8<<10, 50*time.Millisecond)
			result := make(chan error, 1)
			go func() { result <- send(server) }()
			select {
			case err := <-result:
				d.end()
				d.pace.mustHaveBeen(t, limit/3)
				t.Errorf("ended with %v", err)
			case <-time.After(long):
				d.end()
			}
			server.Close()
		})
	}
}

// The same, but the kernel has taken all of the response, so that no Write
// waits, and the server computes. Nobody reads, so ReadTimeout does not count.
func TestClientThatDrainsWhileHandlerComputesIsNotCut(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit = 700 * time.Millisecond
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: limit, ReadTimeout: limit}), nil)
	if err := client.SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	client.Write([]byte("request"))
	if err := read1(server); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	d := startDrain(client, 8<<10, 20*time.Millisecond)
	time.Sleep(3 * limit)
	err := server.Timeout()
	d.end()
	if err != nil {
		d.pace.mustHaveBeen(t, limit/3)
		t.Error(err)
	}
}

func TestReaderThatStopsIsCutByWriteTimeout(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const limit = time.Second
	g := together{t: t}
	defer g.wait.Wait()
	for how, send := range senders {
		g.run(how, func(t *testing.T) {
			send := send(t)
			server, client := connect(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
			narrow(t, server, client)
			d := startDrain(client, 8<<10, 20*time.Millisecond)
			stopped := make(chan time.Time, 1)
			time.AfterFunc(2*limit, func() { stopped <- time.Now(); d.end() })
			err, at := await(t, func() error { return send(server) })
			wantTimeout(t, err, idle.ReasonWrite)
			stop := <-stopped
			if <-d.ended; at.Before(stop) {
				d.pace.mustHaveBeen(t, limit/3)
				t.Errorf("cut %v before the client stopped", stop.Sub(at))
			}
		})
	}
}

func TestReaderBelowTheRateIsCutByMinWriteRate(t *testing.T) {
	t.Parallel()
	needLinux(t)
	g := together{t: t}
	defer g.wait.Wait()
	for how, send := range senders {
		g.run(how, func(t *testing.T) {
			// 4 KiB every 100 ms are 40 KiB/s, too little.
			grace := 500 * time.Millisecond
			send := send(t)
			server, client := connect(t, newTracker(t, idle.Policy{
				WriteTimeout: 5 * time.Second, MinWriteRate: idle.Rate{BytesPerSecond: 400 << 10, Grace: grace}}), nil)
			narrow(t, server, client)
			d := startDrain(client, 4<<10, 100*time.Millisecond)
			start := time.Now()
			err, at := await(t, func() error { return send(server) })
			wantTimeout(t, err, idle.ReasonMinWriteRate)
			notBefore(t, at, start, grace)
			d.end()
		})
	}
}

// What the kernel holds back for a client that takes nothing is not taken: it
// buys no time.
func TestBytesInTheKernelAreNotTaken(t *testing.T) {
	t.Parallel()
	needLinux(t)
	// The client's side takes up to 64 KiB by itself, ours a MiB or more. At
	// this rate that is 2 s, or more than a minute.
	server, client := connect(t, newTracker(t, idle.Policy{
		MinWriteRate: idle.Rate{BytesPerSecond: 16 << 10, Grace: 200 * time.Millisecond}}), nil)
	if err := client.SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	err, _ := await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
	wantTimeout(t, err, idle.ReasonMinWriteRate)
}

// A WrapConn may come late, when much has been sent. That is no advance on what is
// sent after it, nor a debt.
func TestBytesBeforeWrapAreNoDebt(t *testing.T) {
	t.Parallel()
	needLinux(t)
	bare, client := tcpPair(t)
	if err := client.SetReadBuffer(64 << 10); err != nil { // a buffer that shrinks later would close the window for a while
		t.Fatal(err)
	}
	go bare.Write(make([]byte, 4<<20))
	if _, err := io.ReadFull(client, make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	server, err := wrapConn(bare, newTracker(t, idle.Policy{
		MinWriteRate: idle.Rate{BytesPerSecond: 20 << 10, Grace: time.Second}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := bare.SetWriteBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	d := startDrain(client, 16<<10, 50*time.Millisecond)
	result := make(chan error, 1)
	go func() { _, err := server.Write(make([]byte, 8<<20)); result <- err }()
	select {
	case err := <-result:
		d.end()
		d.pace.mustHaveBeen(t, 300*time.Millisecond)
		t.Errorf("ended with %v", err)
	case <-time.After(3 * time.Second):
		d.end()
	}
}

// And not an advance: who takes nothing more is cut all the same.
func TestBytesBeforeWrapAreNoAdvance(t *testing.T) {
	t.Parallel()
	needLinux(t)
	bare, client := tcpPair(t)
	if err := client.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	go bare.Write(make([]byte, 2<<20)) // a minute's worth
	if _, err := io.ReadFull(client, make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	server, err := wrapConn(bare, newTracker(t, idle.Policy{
		MinWriteRate: idle.Rate{BytesPerSecond: 32 << 10, Grace: 200 * time.Millisecond}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	err, _ = await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
	wantTimeout(t, err, idle.ReasonMinWriteRate)
}

// What the peer has taken before buys no time: while no write waited, or in the phase before.
func TestBytesTakenBeforeBuyNoTime(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const much, part = 4 << 20, 32 << 10 // two minutes' worth, and what fits into the buffers
	tracker := newTracker(t, idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 32 << 10, Grace: time.Second}})
	withoutWait := func(server *Conn, client net.Conn) error {
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
	phaseBefore := func(server *Conn, client net.Conn) error {
		defer func() { server.Enter(tracker.Initial()) }()
		taken := make(chan error, 1)
		go func() { _, err := io.CopyN(io.Discard, client, much); taken <- err }()
		if _, err := server.Write(make([]byte, much)); err != nil {
			return err
		}
		return <-taken
	}
	for name, c := range map[string]struct {
		wrap func(net.Conn) net.Conn
		take func(server *Conn, client net.Conn) error
	}{
		"without a wait":                    {func(nc net.Conn) net.Conn { return nc }, withoutWait},
		"in the phase before":               {func(nc net.Conn) net.Conn { return nc }, phaseBefore},
		"in a wrapper, in the phase before": {func(nc net.Conn) net.Conn { return netConned{nc} }, phaseBefore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare, client := tcpPair(t)
			server, err := wrapConn(c.wrap(bare), tracker, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Close() })
			if name == "without a wait" && !tellsWaits(server) {
				t.Skip("on this system it is not known which writes wait")
			}
			if err := client.SetReadBuffer(64 << 10); err != nil {
				t.Fatal(err)
			}
			if err := c.take(server, client); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			err, _ = await(t, func() error { _, err := server.Write(make([]byte, 32<<20)); return err })
			wantTimeout(t, err, idle.ReasonMinWriteRate)
			if took := time.Since(begun); took > patience/2 {
				t.Errorf("it was bought %v", took)
			}
		})
	}
}

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

func TestSlowButSteadyReaderOfPipeIsNeverCut(t *testing.T) {
	t.Parallel()
	bare, client := net.Pipe()
	defer client.Close()
	slowlyDrained(t, bare, client, idle.Policy{WriteTimeout: 700 * time.Millisecond})
}

func slowlyDrained(t *testing.T, bare, client net.Conn, p idle.Policy) {
	limit := max(p.WriteTimeout, p.IdleTimeout)
	server, err := wrapConn(bare, newTracker(t, p), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := startDrain(client, 4<<10, 50*time.Millisecond) // 80 KiB/s
	result := make(chan error, 1)
	go func() { result <- writeHuge(server) }()
	select {
	case err := <-result:
		d.end()
		d.pace.mustHaveBeen(t, limit/2)
		t.Errorf("ended with %v", err)
	case <-time.After(3 * limit):
		d.end()
	}
}

// tellsWaits reports whether it is known which writes of c wait.
func tellsWaits(c *Conn) bool {
	_, tells := kernel.Stream(c.NetConn(), nil)
	return tells
}

// A minimum write rate that SetPolicy switches on, before a write or while it waits, is for
// what the peer takes, not for whole steps: a reader that is much faster is not ended.
func TestSetPolicySwitchesMinWriteRateOn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for name, waits := range map[string]bool{"before the write": false, "while it waits": true} {
			t.Run(network+", "+name, func(t *testing.T) {
				t.Parallel()
				needLinux(t)
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				bare, client := socketPair(t, network, address)
				client.(interface{ SetReadBuffer(int) error }).SetReadBuffer(16 << 10)
				tracker := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
				server, err := wrapConn(bare, tracker, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				write := func() error { _, err := server.Write(make([]byte, 64<<20)); return err }
				result := make(chan error, 1)
				if waits {
					go func() { result <- write() }()
					time.Sleep(200 * time.Millisecond)
				}
				if err := tracker.SetPolicy(idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: 2000, Grace: 5 * time.Second}}); err != nil {
					t.Fatal(err)
				}
				if !waits {
					go func() { result <- write() }()
				}
				b := make([]byte, 10<<10)
				// 20 kB/s, so a step of 128 kB takes more than the Grace. On loopback, whose packets are
				// large, the peer's kernel acknowledges only half a buffer at a time, and the server's
				// learns of that by probes that are ever rarer, so a quiet time of 3 s is possible.
				for i := range 16 {
					if _, err := io.ReadFull(client, b); err != nil {
						t.Fatalf("read %d: %v", i, err)
					}
					select {
					case err := <-result:
						t.Fatalf("after %d reads: %v", i, err)
					case <-time.After(500 * time.Millisecond):
					}
				}
			})
		}
	}
}
