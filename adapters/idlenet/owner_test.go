package idlenet

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

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
