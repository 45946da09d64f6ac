package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// A noting connection notes how it is used. Its Close waits until release is closed, if there is one.
type noting struct {
	net.Conn
	closes  atomic.Int32
	lingers []int
	release chan struct{}
}

func (c *noting) SetLinger(sec int) error { c.lingers = append(c.lingers, sec); return nil }

func (c *noting) Close() error {
	c.closes.Add(1)
	if c.release != nil {
		<-c.release
	}
	return c.Conn.Close()
}

// TestConnectionInsideIsClosedOnce, and doesn't wait for the peer, if the user would.
func TestConnectionInsideIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := net.Pipe()
		inner := &noting{Conn: a}
		server := wrapped(t, inner, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), nil)
		server.SetLinger(30)
		wantTimeout(t, read1(server), idle.ReasonIdle)
		for range 2 {
			if err := server.Close(); err != nil {
				t.Error("Close after a timeout: ", err)
			}
		}
		time.Sleep(time.Second)
		if n := inner.closes.Load(); n != 1 {
			t.Errorf("the wrapped connection was closed %d times", n)
		}
		if l := inner.lingers; len(l) != 2 || l[0] != 30 || l[1] != -1 {
			t.Errorf("the linger was set to %v", l)
		}
	})
}

func TestSecondCloseFailsAsThatOfNetDoes(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, client := connect(t, tracker, nil)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{"close": server.Close(), "read": read1(server)} {
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != name || op.Net != "tcp" || op.Addr.String() != client.LocalAddr().String() || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: got %#v, want net.ErrClosed", name, err)
		}
	}
	if st := tracker.Stats(); st.Tracked != 1 || st.Closed != 1 || st.Live != 0 {
		t.Errorf("%+v", st)
	}
}

// TestCloseThatBlocks has a connection inside that takes long to close. Other connections are ended in time. A write that waits
// fails, and so do a later one and a read, for which a deadline was set.
func TestCloseThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		tracker := newTracker(t, idle.Policy{IdleTimeout: limit})
		release := make(chan struct{})
		var first *Conn
		for range 10 {
			a, b := net.Pipe()
			defer b.Close()
			first = wrapped(t, &noting{Conn: a, release: release}, tracker, nil)
		}
		_, peer := pipe(t, tracker, nil)
		begun := time.Now()
		_, waiting := first.Write([]byte("x"))
		first.SetDeadline(time.Now().Add(time.Hour))
		_, later := first.Write([]byte("x"))
		for _, err := range []error{waiting, later, read1(first)} {
			wantTimeout(t, err, idle.ReasonIdle)
		}
		if err := read1(peer); err != io.EOF {
			t.Errorf("the peer got %v, want EOF", err)
		}
		onTime(t, time.Now(), begun, limit)
		close(release)
	})
}

// TestTimeoutCloses has a server that does nothing with its connection. The peer sees the end at once, or when OnEnd has had
// its second.
func TestTimeoutCloses(t *testing.T) {
	const limit = time.Second
	for name, test := range map[string]struct {
		onEnd func(*Conn, *idle.TimeoutError)
		after time.Duration
	}{
		"at once":            {nil, limit},
		"after its farewell": {func(c *Conn, _ *idle.TimeoutError) { c.Write([]byte("bye")) }, limit},
		"while it waits":     {func(*Conn, *idle.TimeoutError) { time.Sleep(time.Minute) }, 2 * limit},
	} {
		inBubble(t, idle.Policy{IdleTimeout: limit}, &Options{OnEnd: test.onEnd}, func(t *testing.T, c *Conn, client net.Conn) {
			c.SetWriteDeadline(time.Now().Add(time.Millisecond)) // of an earlier write
			begun := time.Now()
			farewell, err := io.ReadAll(client)
			if err != nil {
				t.Error(err)
			}
			onTime(t, time.Now(), begun, test.after)
			if want := name == "after its farewell"; (string(farewell) == "bye") != want {
				t.Errorf("%s: the peer got %q", name, farewell)
			}
			time.Sleep(time.Minute)
		})
	}
}

// OnEnd is the last word to the peer: it is told once, while writes succeed
// still, and what it makes of the error is what the server gets. What the peer sends is too late.
func TestOnEndMayWriteALastMessageAndChangeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, takes = 100 * time.Millisecond, 300 * time.Millisecond
		ends := 0
		var lateBytes atomic.Int32
		var server *Conn
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit}), &Options{OnEnd: func(c *Conn, err *idle.TimeoutError) {
			ends++
			if c != server || err.Reason != idle.ReasonIdle || *c.Timeout() != *err {
				t.Errorf("told of %p and %v, its Timeout being %v", c, err, c.Timeout())
			}
			c.SetWriteDeadline(time.Now().Add(time.Second))
			time.Sleep(takes)
			if _, err := c.Write([]byte("bye")); err != nil {
				t.Errorf("the last message: %v", err)
			}
			err.Phase = "of another name"
		}})
		said := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(client)
			said <- string(b)
		}()
		time.AfterFunc(limit+takes/2, func() {
			for range 5 {
				n, _ := client.Write([]byte("too late"))
				lateBytes.Add(int32(n))
			}
		})
		start := time.Now()
		n, err := server.Read(make([]byte, 100))
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, time.Now(), start, limit+takes)
		if n > 0 || lateBytes.Load() == 0 {
			t.Errorf("%d bytes are delivered of %d", n, lateBytes.Load())
		}
		if got := <-said; got != "bye" {
			t.Errorf("the peer was told %q", got)
		}
		_, again := server.Write([]byte("x"))
		for _, err := range []error{err, again} {
			var timeout *idle.TimeoutError
			if !errors.As(err, &timeout) || timeout.Phase != "of another name" || timeout != server.Timeout() {
				t.Errorf("%v does not have what OnEnd made of it", err)
			}
		}
		time.Sleep(time.Minute)
		if ends != 1 {
			t.Errorf("told %d times", ends)
		}
	})
}

func TestOnEndIsNotToldOfWhatIsClosedOrKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		tracker := newTracker(t, idle.Policy{IdleTimeout: limit})
		var ends, asked atomic.Int32
		end := func(*Conn, *idle.TimeoutError) { ends.Add(1) }
		closed, _ := pipe(t, tracker, &Options{OnEnd: end})
		closed.Close()
		kept, _ := pipe(t, tracker, &Options{OnEnd: end, OnTimeout: func(*Conn, *idle.TimeoutError) bool {
			if ends.Load() > 0 {
				t.Error("OnEnd was told before OnTimeout was asked")
			}
			return asked.Add(1) < 3
		}})
		closing, _ := pipe(t, tracker, &Options{OnEnd: end, OnTimeout: func(c *Conn, _ *idle.TimeoutError) bool {
			c.Close()
			return false
		}})
		if err := read1(closing); err != io.ErrClosedPipe || ends.Load() != 0 {
			t.Errorf("got %v; told %d times", err, ends.Load())
		}
		wantTimeout(t, read1(kept), idle.ReasonIdle)
		if ends.Load() != 1 || asked.Load() != 3 {
			t.Errorf("told %d times after asking %d", ends.Load(), asked.Load())
		}
	})
}

// TestOnEndThatWaits has an OnEnd that waits for the server to give up the connection, as one does
// that needs a lock which the server holds while it reads. The server reads until the connection's
// timeout tells it to stop.
func TestOnEndThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given, begun := make(chan struct{}), make(chan struct{})
		c, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: time.Second}), &Options{OnEnd: func(*Conn, *idle.TimeoutError) {
			close(begun)
			<-given
		}})
		go func() {
			<-begun
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the server's own
		}()
		started := time.Now()
		for time.Since(started) < 1500*time.Millisecond { // before, it's the server's deadline that has passed
			wantTimeout(t, read1(c), idle.ReasonRead)
			c.SetReadDeadline(time.Time{})
		}
		onTime(t, time.Now(), started, 2*time.Second)
		close(given)
		if err := read1(client); err != io.EOF {
			t.Error("the connection isn't closed: ", err)
		}
	})
}

// TestOnEndThatChangesTheErrorLate has an OnEnd that changes its error for longer than a second, while
// reads fail. They return an error that nobody changes any more.
func TestOnEndThatChangesTheErrorLate(t *testing.T) {
	inBubble(t, idle.Policy{IdleTimeout: time.Second}, &Options{OnEnd: func(_ *Conn, err *idle.TimeoutError) {
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			err.Phase += "x"
		}
	}}, func(t *testing.T, c *Conn, _ net.Conn) {
		for range 20 {
			if err := read1(c); err == nil || err.Error() == "" {
				t.Error("Read fails with ", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
	})
}

// TestNoFarewellAfterAWriteTimeout has an OnEnd that writes to a peer that doesn't read, beside the write that has timed out.
// Both fail with the timeout, and the connection is closed at once.
func TestNoFarewellAfterAWriteTimeout(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Minute} { // that crypto/tls gives its alert
		synctest.Test(t, func(t *testing.T) {
			farewell := make(chan error, 1)
			c, _ := pipe(t, newTracker(t, idle.Policy{WriteTimeout: time.Second}), &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
				if limit > 0 {
					c.SetWriteDeadline(time.Now().Add(limit))
				}
				_, err := c.Write([]byte("bye"))
				farewell <- err
			}})
			begun := time.Now()
			_, err := c.Write([]byte("hello"))
			wantTimeout(t, err, idle.ReasonWrite)
			wantTimeout(t, <-farewell, idle.ReasonWrite)
			synctest.Wait()
			if _, err := c.NetConn().Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
				t.Error("not closed: ", err)
			}
			onTime(t, time.Now(), begun, time.Second)
		})
	}
}

// TestTrackerClosedDuringOnEnd closes the tracker while OnEnd takes longer than Close waits. The
// connection is closed all the same, though its owner does nothing.
func TestTrackerClosedDuringOnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		goOn := make(chan bool)
		_, client := pipe(t, tracker, &Options{OnEnd: func(*Conn, *idle.TimeoutError) { <-goOn }})
		time.Sleep(2 * time.Second)
		if _, err := tracker.Close(); err == nil {
			t.Error("Close doesn't say that OnEnd is running")
		}
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		if n := tracker.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
		if err := read1(client); err != io.EOF {
			t.Errorf("open after its end and that of the tracker: %v", err)
		}
	})
}

// TestCloseHandsBackTheConns closes a tracker with connections that have all kinds of
// callbacks: what it hands back is what Accept and WrapConn have returned. They have no limits any more.
func TestCloseHandsBackTheConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		keep := func(*Conn, *idle.TimeoutError) bool { return false }
		end := func(*Conn, *idle.TimeoutError) {}
		want := map[any]net.Conn{}
		for _, opts := range []*Options{nil, {OnTimeout: keep}, {OnEnd: end}, {OnTimeout: keep, OnEnd: end}} {
			c, client := pipe(t, tracker, opts)
			want[c] = client
		}
		live, err := tracker.Close()
		if err != nil || len(live) != len(want) {
			t.Errorf("handed back %v, %v", live, err)
		}
		for _, c := range live {
			client := want[c]
			if client == nil {
				t.Fatalf("handed back a %T", c)
			}
			time.AfterFunc(time.Hour, func() { client.Write([]byte("x")) })
			if err := read1(c.(*Conn)); err != nil {
				t.Error("a read without limits: ", err)
			}
			if err := c.(*Conn).Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFarewellAfterThePeerHasHungUp has a peer that sends no more as soon as OnEnd has begun to write. The server, which reads
// until an error and then closes, doesn't cut the rest of the farewell.
func TestFarewellAfterThePeerHasHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare, client := simulated(t, simnet.Whole)
		server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
			c.Write([]byte("by"))
			time.Sleep(20 * time.Millisecond) // until the server has read the end
			c.Write([]byte("e"))
		}})
		go func() {
			wantTimeout(t, read1(server), idle.ReasonIdle)
			server.Close()
		}()
		io.ReadFull(client, make([]byte, 2))
		client.CloseWrite()
		if rest, err := io.ReadAll(client); string(rest) != "e" || err != nil {
			t.Errorf("the rest of the farewell is %q, %v", rest, err)
		}
	})
}

// TestOnEndThatReads gets an error, and does not wait for itself.
func TestOnEndThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan error, 1)
		bare, client := net.Pipe()
		begun := time.Now()
		wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: time.Second}), &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
			client.Close()
			read <- read1(c)
		}})
		if err := <-read; err == nil {
			t.Error("it has read something")
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// deadlineless is a connection that takes no deadlines, and whose reads fail in their
// own way when it is closed.
type deadlineless struct {
	net.Conn
	closed chan struct{}
}

var errOwn = errors.New("an error of its own")

func (d *deadlineless) SetDeadline(time.Time) error { return errOwn }
func (d *deadlineless) Read([]byte) (int, error)    { <-d.closed; return 0, errOwn }
func (d *deadlineless) Close() error                { close(d.closed); return d.Conn.Close() }

func TestTimeoutOfAConnWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
		a, _ := net.Pipe()
		c := wrapped(t, &deadlineless{a, make(chan struct{})}, tracker, nil)
		start := time.Now()
		for range 2 { // the pending read, and a later one
			wantTimeout(t, read1(c), idle.ReasonIdle)
		}
		onTime(t, time.Now(), start, time.Second)
		time.Sleep(3 * time.Second) // it is not closed a second time, which would panic
		if n := tracker.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
	})
}

// TestErrorsAfterTheEnd: errors are like those of package net, and the same each time, even if a deadline is set later.
func TestErrorsAfterTheEnd(t *testing.T) {
	for name, set := range map[string]func(*Conn, time.Time) error{
		"no deadline": func(*Conn, time.Time) error { return nil },
		"SetDeadline": (*Conn).SetDeadline, "SetReadDeadline": (*Conn).SetReadDeadline, "SetWriteDeadline": (*Conn).SetWriteDeadline,
	} {
		inBubble(t, idle.Policy{IdleTimeout: time.Second}, nil, func(t *testing.T, server *Conn, client net.Conn) {
			err := read1(server)
			wantTimeout(t, err, idle.ReasonIdle)
			var op *net.OpError
			if !errors.As(err, &op) || op.Op != "read" || op.Source == nil || server.Timeout().Limit != time.Second {
				t.Errorf("%#v does not say which operation on which connection failed", err)
			}
			time.Sleep(time.Minute)
			go readAll(client)
			for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
				if err := set(server, until); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
				wantTimeout(t, read1(server), idle.ReasonIdle)
				_, err := server.Write([]byte("x"))
				wantTimeout(t, err, idle.ReasonIdle)
			}
		})
	}
}
