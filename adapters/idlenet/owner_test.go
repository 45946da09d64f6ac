package idlenet

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// OnEnd is the last word to the peer: it is told once, while writes succeed
// still, and what it makes of the error is what the server gets.
func TestOnEndMayWriteALastMessageAndChangeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, takes = 100 * time.Millisecond, 300 * time.Millisecond
		var ends atomic.Int32
		var server *Conn
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit}), &Options{OnEnd: func(c *Conn, err *idle.TimeoutError) {
			ends.Add(1)
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
			b := make([]byte, 3)
			io.ReadFull(client, b)
			said <- string(b)
		}()
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, at, start, limit+takes)
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
		if ends.Load() != 1 {
			t.Errorf("told %d times", ends.Load())
		}
	})
}

// Once OnEnd is told, it is too late for what the peer sends.
func TestReadsDeliverNothingDuringOnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit}), &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
			time.Sleep(time.Second)
		}})
		sent := make(chan int, 1)
		go func() {
			time.Sleep(2 * limit)
			n := 0
			for err := error(nil); err == nil; n++ {
				_, err = client.Write([]byte("too late"))
				time.Sleep(limit)
			}
			sent <- n
		}()
		start := time.Now()
		err, at := await(t, func() error {
			n, err := server.Read(make([]byte, 100))
			if n > 0 {
				t.Errorf("%d bytes are delivered", n)
			}
			return err
		})
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, at, start, limit+time.Second)
		server.Close()
		if n := <-sent; n < 5 {
			t.Errorf("the peer has sent only %d times", n)
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
		time.Sleep(limit / 2)
		closed.Close()
		time.Sleep(2 * limit)
		if ends.Load() != 0 || asked.Load() == 0 {
			t.Errorf("told %d times after asking %d", ends.Load(), asked.Load())
		}
		if err := read1(closing); err != io.ErrClosedPipe {
			t.Errorf("got %v", err)
		}
		wantTimeout(t, read1(kept), idle.ReasonIdle)
		if ends.Load() != 1 || asked.Load() != 3 {
			t.Errorf("told %d times after asking %d", ends.Load(), asked.Load())
		}
	})
}

// A read ahead of need awaits nothing of the peer, until that is taken back. What
// arrives is read nonetheless, and counts as an activity.
func TestReadAheadDoesNotHoldSilenceAgainstThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		rate := idle.Rate{BytesPerSecond: 1000, Grace: limit}
		for _, policy := range []idle.Policy{{ReadTimeout: limit}, {MinReadRate: rate}} {
			server, client := pipe(t, newTracker(t, policy), nil)
			go client.Write([]byte("x"))
			if err := read1(server); err != nil {
				t.Errorf("before that: %v", err)
			}
			server.conn().ReadAhead(true)
			time.AfterFunc(time.Minute, func() { client.Write([]byte("x")) })
			if err := read1(server); err != nil {
				t.Errorf("ahead of need: %v", err)
			}
			server.conn().ReadAhead(false)
			start := time.Now()
			err, at := await(t, func() error { return read1(server) })
			wantTimeout(t, err, map[bool]idle.Reason{true: idle.ReasonRead, false: idle.ReasonMinReadRate}[policy.ReadTimeout > 0])
			notBefore(t, at, start, limit)
			server.Close()
		}
		server, _ := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
		server.conn().ReadAhead(true)
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, at, start, limit)
	})
}

// A counting is a connection with a Conn in it, and a Read of its own.
type counting struct {
	name string
	netconn.Conn
	reads int
}

func (c *counting) Read(b []byte) (int, error) {
	c.reads++
	return c.Conn.Read(b)
}

func TestInitMakesAPartOfAnotherTypeAConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		tracker := newTracker(t, idle.Policy{IdleTimeout: limit})
		bare, client := net.Pipe()
		defer client.Close()
		c := &counting{name: "it"}
		setup := netconn.NewSetup(idle.Hooks{OnEnd: func(owner any, _ *idle.TimeoutError) {
			if owner != c {
				t.Errorf("told of %p", owner)
			}
		}}, nil)
		if err := c.Init(bare, tracker, c, setup); err != nil {
			t.Fatal(err)
		}
		go client.Write([]byte("x"))
		if err := read1(c); err != nil || c.reads != 1 {
			t.Errorf("%v after %d reads", err, c.reads)
		}
		start := time.Now()
		err, at := await(t, func() error { return read1(c) })
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, at, start, limit)
		c.Close()
	})
}

// It fails as WrapConn does, and leaves the connection to its owner.
func TestInitRefusesWhatWrapDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
		wrapped, _ := pipe(t, tracker, nil)
		init := func(nc net.Conn, t *idle.Tracker) error {
			c := new(netconn.Conn)
			return c.Init(nc, t, c, netconn.NewSetup(idle.Hooks{}, nil))
		}
		if err := init(wrapped, tracker); err != ErrWrapped {
			t.Errorf("a *Conn: %v", err)
		}
		bare, client := net.Pipe()
		pings := newTracker(t, idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}})
		if err := init(bare, pings); err == nil {
			t.Error("it is to be pinged, but nobody can")
		}
		closed, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		if err := init(bare, closed); !errors.Is(err, idle.ErrClosed) {
			t.Errorf("a tracker that is closed: %v", err)
		}
		go client.Write([]byte("x"))
		if err := read1(bare); err != nil {
			t.Errorf("it was left as it was, but %v", err)
		}
		bare.Close()
		client.Close()
	})
}

func TestIdleAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Hour}), nil)
		time.Sleep(3 * time.Second)
		go client.Write([]byte("x"))
		read1(server)
		time.Sleep(time.Second)
		if age, idle := server.Age(), server.Idle(); age > 4*time.Second || age < 4*time.Second-2*tick || idle > time.Second || idle < time.Second-2*tick {
			t.Errorf("%v old, idle for %v", age, idle)
		}
	})
}

// TestUse: with ExplicitUse bytes and beats are no use, and Use is.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: limit, ExplicitUse: true}), nil)
		go func() {
			for {
				if _, err := client.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(limit / 10)
			}
		}()
		time.AfterFunc(limit/2, server.Use)
		start := time.Now().Add(limit / 2)
		var err error
		for err == nil {
			err = read1(server)
			server.Beat()
		}
		wantTimeout(t, err, idle.ReasonIdle)
		onTime(t, time.Now(), start, limit)
		server.Close()
		time.Sleep(limit) // until the client has noticed
	})
}
