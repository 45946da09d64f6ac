package idlenet

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestReadTimeoutDoesNotCountWhileHandlerComputes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		server, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
		go client.Write([]byte("request"))
		if err := read1(server); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * limit)
		if server.Timeout() != nil {
			t.Fatal("nobody was reading, but", server.Timeout())
		}
		start := time.Now()
		err, at := await(t, func() error { return read1(server) })
		wantTimeout(t, err, idle.ReasonRead)
		onTime(t, at, start, limit)
	})
}

func TestWriteTimeoutDoesNotCountBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{WriteTimeout: 100 * time.Millisecond}), nil)
		go readAll(client)
		for range 5 {
			if _, err := server.Write(make([]byte, 3*largeStep)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}

// Whoever polls waits for the peer all the same.
func TestPolledReadsHitReadTimeout(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 70 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = 200 * time.Millisecond
				server, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), nil)
				go client.Write([]byte("x"))
				if err := read1(server); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err, at := await(t, func() error {
					for {
						server.SetReadDeadline(time.Now().Add(every))
						err := read1(server)
						if server.Timeout() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
							return err
						}
						wantUserTimeout(t, err)
					}
				})
				if errors.Is(err, os.ErrDeadlineExceeded) && server.Timeout() != nil {
					err = read1(server) // the last poll may have ended for both reasons at once
				}
				wantTimeout(t, err, idle.ReasonRead)
				onTime(t, at, start, limit)
			})
		})
	}
}

// So does whoever polls with a write that nobody takes.
func TestPolledWritesHitWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, every = 200 * time.Millisecond, 70 * time.Millisecond
		server, _ := pipe(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
		start := time.Now()
		err, at := await(t, func() error { return pollWrites(server, every, 1) })
		wantTimeout(t, err, idle.ReasonWrite)
		onTime(t, at, start, limit)
	})
}

// pollWrites writes size bytes at a time, for no longer than every each, until
// the connection has timed out.
func pollWrites(c *Conn, every time.Duration, size int) error {
	for {
		c.SetWriteDeadline(time.Now().Add(every))
		_, err := c.Write(make([]byte, size))
		if c.Timeout() != nil {
			_, err = c.Write(make([]byte, 1)) // the last poll may have ended for both reasons at once
			return err
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// After a poll that got nothing the server still waits, whatever it does. After one that got something it doesn't.
func TestReadTimeoutCountsBetweenPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		ends := make(chan time.Time, 1)
		server, client := pipe(t, newTracker(t, idle.Policy{ReadTimeout: limit}), &Options{OnEnd: func(*Conn, *idle.TimeoutError) { ends <- time.Now() }})
		poll := func() error {
			server.SetReadDeadline(time.Now().Add(limit / 2))
			return read1(server)
		}
		wantUserTimeout(t, poll())
		go client.Write([]byte("x"))
		if err := poll(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * limit)
		if server.Timeout() != nil {
			t.Fatal("nobody was waiting, but", server.Timeout())
		}
		start := time.Now()
		wantUserTimeout(t, poll())
		onTime(t, <-ends, start, limit)
	})
}

func TestUserReadDeadlineKeepsItsMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute}), nil)
		start := time.Now()
		server.SetReadDeadline(start.Add(50 * time.Millisecond))
		err, at := await(t, func() error { return read1(server) })
		wantUserTimeout(t, err)
		if at.Sub(start) != 50*time.Millisecond {
			t.Errorf("after %v", at.Sub(start))
		}
		server.SetDeadline(time.Time{})
		go client.Write([]byte("x"))
		if err := read1(server); err != nil {
			t.Error("after the deadline was lifted:", err)
		}
	})
}

func TestUserWriteDeadlineKeepsItsMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{WriteTimeout: time.Minute}), nil)
		server.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		err, _ := await(t, func() error { return writeHuge(server) })
		wantUserTimeout(t, err)
		server.SetWriteDeadline(time.Time{})
		go readAll(client)
		if err := writeHuge(server); err != nil {
			t.Error("after the deadline was lifted:", err)
		}
	})
}

// A deadline that was set before WrapConn is the user's, too.
func TestDeadlineFromBeforeWrapCanBeLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare, client := net.Pipe()
		defer client.Close()
		bare.SetReadDeadline(time.Now().Add(time.Second))
		server, err := wrapConn(bare, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		server.SetReadDeadline(time.Time{})
		time.AfterFunc(2*time.Second, func() { client.Write([]byte("x")) })
		if err := read1(server); err != nil {
			t.Error(err)
		}
	})
}

// A write that the user gave up goes on waiting until one succeeds.
func TestAbandonedWriteWaits(t *testing.T) {
	for _, again := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const limit = 100 * time.Millisecond
			server, client := pipe(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
			server.SetWriteDeadline(time.Now().Add(limit / 2))
			err, _ := await(t, func() error { return writeHuge(server) })
			wantUserTimeout(t, err)
			if again {
				go readAll(client)
				server.SetWriteDeadline(time.Time{})
				if _, err := server.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * limit)
			if err := server.Timeout(); (err == nil) != again {
				t.Errorf("a write has succeeded: %v; ended by %v", again, err)
			}
		})
	}
}

// Nor is it held against the write after the next. One of nothing leaves nothing
// waiting, either.
func TestWriteAfterOneThatMovedNothingHasItsTime(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, before := range map[string]func(server *Conn, client net.Conn){
		"abandoned": func(server *Conn, client net.Conn) {
			server.SetWriteDeadline(time.Now().Add(limit / 10))
			_, err := server.Write([]byte("x"))
			wantUserTimeout(t, err)
			server.SetWriteDeadline(time.Time{})
			go read1(client)
			if _, err := server.Write([]byte("x")); err != nil {
				t.Error(err)
			}
		},
		"empty": func(server *Conn, client net.Conn) {
			go read1(client)
			if _, err := server.Write(nil); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := pipe(t, newTracker(t, idle.Policy{WriteTimeout: limit}), nil)
				before(server, client)
				time.Sleep(limit * 8 / 10)
				start := time.Now()
				err, at := await(t, func() error { _, err := server.Write([]byte("x")); return err })
				wantTimeout(t, err, idle.ReasonWrite)
				onTime(t, at, start, limit)
			})
		})
	}
}

// TestRemovedDeadline: removing a deadline fails after Close as all else does, and it
// removes one that was set past the Conn.
func TestRemovedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Hour}), nil)
		bare := server.NetConn()
		for range 2 {
			server.SetDeadline(time.Time{}) // from now on none is set, as far as the Conn knows
			bare.SetReadDeadline(time.Now().Add(time.Second))
			server.SetReadDeadline(time.Time{})
			time.Sleep(2 * time.Second)
			go client.Write([]byte("x"))
			if err := read1(server); err != nil {
				t.Errorf("the deadline was not removed: %v", err)
			}
		}
	})
	server, _ := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Hour}), nil)
	server.SetDeadline(time.Time{})
	server.Close()
	for name, set := range map[string]func(time.Time) error{
		"SetDeadline": server.SetDeadline, "SetReadDeadline": server.SetReadDeadline, "SetWriteDeadline": server.SetWriteDeadline,
	} {
		if err := set(time.Time{}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close returns %v", name, err)
		}
	}
}
