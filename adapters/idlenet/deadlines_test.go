package idlenet

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// After a poll that got nothing the server still waits. After a read that got something it doesn't.
func TestReadTimeoutDoesNotCountWhileHandlerComputes(t *testing.T) {
	const limit = 100 * time.Millisecond
	inBubble(t, idle.Policy{ReadTimeout: limit}, nil, func(t *testing.T, server *Conn, client net.Conn) {
		wantUserTimeout(t, pollRead(server, time.Now().Add(limit/2)))
		server.SetReadDeadline(time.Time{})
		go client.Write([]byte("request"))
		if err := read1(server); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * limit)
		start := time.Now()
		wantTimeout(t, read1(server), idle.ReasonRead)
		onTime(t, time.Now(), start, limit)
	})
}

func TestWriteTimeoutDoesNotCountBetweenWrites(t *testing.T) {
	inBubble(t, idle.Policy{WriteTimeout: 100 * time.Millisecond}, nil, func(t *testing.T, server *Conn, client net.Conn) {
		go readAll(client)
		for range 5 {
			if _, err := server.Write(make([]byte, 3*largeStep)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}

// The user's own deadlines keep their meaning. One that was set before WrapConn is the user's, too.
func TestUserDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const while = 50 * time.Millisecond
		bare, client := net.Pipe()
		bare.SetReadDeadline(time.Now().Add(while))
		server := wrapped(t, bare, newTracker(t, idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute}), nil)
		fails := func(op func() error) {
			t.Helper()
			start := time.Now()
			wantUserTimeout(t, op())
			if took := time.Since(start); took != while {
				t.Errorf("after %v", took)
			}
		}
		for range 2 {
			fails(func() error { return read1(server) })
			server.SetReadDeadline(time.Time{})
			time.AfterFunc(2*while, func() { client.Write([]byte("x")) })
			if err := read1(server); err != nil {
				t.Error("after the deadline was lifted:", err)
			}
			server.SetReadDeadline(time.Now().Add(while))
		}
		server.SetWriteDeadline(time.Now().Add(while))
		fails(func() error { return writeHuge(server) })
		server.SetReadDeadline(time.Time{})
		server.SetWriteDeadline(time.Time{}) // though a deadline was just removed
		go readAll(client)
		if err := writeHuge(server); err != nil {
			t.Error("after the deadline was lifted:", err)
		}
	})
}

// A write that the user gave up goes on waiting until one succeeds. Nor is it held against the write after the next. One
// of nothing leaves nothing waiting, either.
func TestAbandonedWriteWaits(t *testing.T) {
	const limit = 200 * time.Millisecond
	abandon := func(t *testing.T, server *Conn) {
		server.SetWriteDeadline(time.Now().Add(limit / 10))
		wantUserTimeout(t, writeHuge(server))
		server.SetWriteDeadline(time.Time{})
	}
	succeed := func(t *testing.T, server *Conn, client net.Conn) {
		go read1(client)
		if _, err := server.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, server *Conn, client net.Conn)
		waits  bool
	}{
		"abandoned":                        {func(t *testing.T, server *Conn, _ net.Conn) { abandon(t, server) }, true},
		"abandoned, and one that succeeds": {func(t *testing.T, server *Conn, client net.Conn) { abandon(t, server); succeed(t, server, client) }, false},
		"empty": {func(t *testing.T, server *Conn, client net.Conn) {
			go read1(client)
			server.Write(nil)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, idle.Policy{WriteTimeout: limit}, nil, func(t *testing.T, server *Conn, client net.Conn) {
				begun := time.Now()
				c.before(t, server, client)
				time.Sleep(limit * 8 / 10)
				if !c.waits {
					begun = time.Now()
				}
				_, err := server.Write([]byte("x"))
				wantTimeout(t, err, idle.ReasonWrite)
				onTime(t, time.Now(), begun, limit)
			})
		})
	}
}

// TestRemovedDeadline: removing a deadline fails after Close as all else does, and it
// removes one that was set past the Conn.
func TestRemovedDeadline(t *testing.T) {
	inBubble(t, idle.Policy{IdleTimeout: time.Hour}, nil, func(t *testing.T, server *Conn, client net.Conn) {
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

// measuring is how much later than after its Grace a minimum rate may end a connection whose waits aren't measured at first.
func measuring(grace time.Duration) time.Duration { return grace/8 + 2*tick }

// TestPolled has a server that reads, or writes, with deadlines of its own, and works in
// between, while the peer does nothing. All of that is one wait, whatever error the deadlines give. In the middle it may enter
// a phase, from which the wait counts.
func TestPolled(t *testing.T) {
	const limit = 2 * time.Second
	rate := idle.Rate{BytesPerSecond: 1, Grace: limit}
	for reason, c := range map[idle.Reason]struct {
		policy idle.Policy
		try    func(c *Conn, until time.Time) error
	}{
		idle.ReasonRead:         {idle.Policy{ReadTimeout: limit}, pollRead},
		idle.ReasonMinReadRate:  {idle.Policy{MinReadRate: rate}, pollRead},
		idle.ReasonWrite:        {idle.Policy{WriteTimeout: limit}, pollWrite},
		idle.ReasonMinWriteRate: {idle.Policy{MinWriteRate: rate}, pollWrite},
	} {
		for _, poll := range []struct{ wait, work, enter time.Duration }{
			{100 * time.Millisecond, 900 * time.Millisecond, 0},
			{500 * time.Millisecond, 500 * time.Millisecond, 0},
			{10 * time.Millisecond, 90 * time.Millisecond, time.Second},
			{10 * time.Millisecond, 10 * time.Millisecond, 0},
			{time.Millisecond, 0, 0},
			{3 * time.Millisecond, 4 * time.Millisecond, time.Second},
		} {
			for _, network := range []string{"", "mux"} {
				t.Run(fmt.Sprint(reason, network, poll), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						tracker := newTracker(t, c.policy)
						bare, _ := net.Pipe()
						if network != "" {
							bare = &foreign{Conn: bare, network: network}
						}
						conn := wrapped(t, bare, tracker, nil)
						begun := time.Now()
						if poll.enter > 0 {
							time.AfterFunc(poll.enter, func() { conn.Enter(tracker.Initial()) })
						}
						for conn.Timeout() == nil && time.Since(begun) < 3*limit {
							err := c.try(conn, time.Now().Add(poll.wait))
							if ours := new(idle.TimeoutError); errors.As(err, &ours) != (conn.Timeout() != nil) {
								t.Fatalf("a poll fails with %v", err)
							}
							time.Sleep(poll.work)
						}
						took := time.Since(begun) - poll.enter
						wantTimeout(t, c.try(conn, time.Time{}), reason)
						if most := limit + measuring(limit) + 3*tick + tick/8 + poll.wait + poll.work; took < limit || took > most {
							t.Errorf("timed out after %v; want %v to %v (%v)", took, limit, most, conn.Timeout())
						}
					})
				})
			}
		}
	}
}

func pollRead(c *Conn, until time.Time) error {
	c.SetReadDeadline(until)
	return read1(c)
}

func pollWrite(c *Conn, until time.Time) error {
	c.SetWriteDeadline(until)
	_, err := c.Write([]byte("x"))
	return err
}
