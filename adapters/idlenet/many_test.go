//go:build proof

package idlenet

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A thousand connections fall silent at once while fifty stay active.
func TestExactlyTheStaleOfManyAreClosed(t *testing.T) {
	const stale, active, limit = 1000, 50, 2 * time.Second
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
	phase, err := tracker.Phase(idle.Policy{IdleTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := share(t, bare, tracker, nil)
	defer ln.Close()
	var servers sync.WaitGroup
	var timedOut, ended, wrong atomic.Int32
	serve := func(c net.Conn) {
		defer c.Close()
		err := readAll(c)
		var timeout *idle.TimeoutError
		switch {
		case errors.As(err, &timeout) && timeout.Reason == idle.ReasonIdle:
			timedOut.Add(1)
		case errors.Is(err, io.EOF):
			ended.Add(1)
		default:
			wrong.Add(1)
		}
	}
	var clients []net.Conn
	var conns []*Conn
	for range stale + active {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, server.(*Conn))
		servers.Go(func() { serve(server) })
	}
	var pace metronome
	pace.beat()
	for _, c := range conns { // now that all are there, however long that took
		c.Enter(phase)
	}
	rand.Shuffle(len(clients), func(i, j int) { clients[i], clients[j] = clients[j], clients[i] })
	silent := time.Now()
	for _, c := range clients {
		c.Write([]byte("x"))
	}
	for tracker.Stats().TimedOut[idle.ReasonIdle] < stale {
		for _, c := range clients[:active] {
			c.Write([]byte("x"))
		}
		pace.beat()
		time.Sleep(limit / 20)
		if time.Since(silent) > patience {
			t.Fatalf("%+v", tracker.Stats())
		}
	}
	notBefore(t, time.Now(), silent, limit)
	for range 10 { // and the others go on
		for _, c := range clients[:active] {
			c.Write([]byte("x"))
		}
		pace.beat()
		time.Sleep(limit / 20)
	}
	if st := tracker.Stats(); st.Tracked != stale+active || st.Live != active || st.TimedOut[idle.ReasonIdle] != stale || st.Closed != 0 {
		pace.beat()
		pace.mustHaveBeen(t, limit/2)
		t.Errorf("%+v", st)
	}
	for _, c := range clients[:active] {
		c.Close()
	}
	servers.Wait()
	if timedOut.Load() != stale || ended.Load() != active || wrong.Load() != 0 {
		t.Errorf("%d timed out, %d ended, %d otherwise", timedOut.Load(), ended.Load(), wrong.Load())
	}
	if st := tracker.Stats(); st.Live != 0 || st.Closed != active || st.Tracked != st.Closed+st.TimedOut[idle.ReasonIdle] {
		t.Errorf("%+v", st)
	}
}

// Everything at once, for the race detector, and to see that each connection
// has one outcome.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	policy := idle.Policy{
		ExplicitUse: true, IdleTimeout: 20 * ms, ReadTimeout: 20 * ms, WriteTimeout: 20 * ms, MaxAge: 60 * ms, MaxAgeJitter: 50 * ms, MaxAgeGrace: 10 * ms,
		Heartbeat:   idle.Heartbeat{Interval: 10 * ms, Timeout: 10 * ms, Misses: 2},
		MinReadRate: idle.Rate{BytesPerSecond: 10, Grace: 20 * ms}, MinWriteRate: idle.Rate{BytesPerSecond: 10, Grace: 20 * ms},
	}
	tracker := newTracker(t, policy)
	exempt, err := tracker.Phase(idle.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	usual, err := tracker.Phase(policy)
	if err != nil {
		t.Fatal(err)
	}
	opts := &Options{
		Ping:      func(c *Conn) error { _, err := c.Write([]byte("?")); return err },
		OnTimeout: func(*Conn, *idle.TimeoutError) bool { return rand.IntN(3) == 0 },
		OnDrain:   func(c *Conn) { c.SetDeadline(time.Now().Add(time.Second)) },
	}
	var wait sync.WaitGroup
	for range 40 {
		wait.Go(func() {
			server, client := connect(t, tracker, opts)
			var users sync.WaitGroup
			stop := time.Now().Add(200 * ms)
			again := func(op func()) {
				users.Go(func() {
					for time.Now().Before(stop) {
						op()
						time.Sleep(time.Duration(rand.IntN(3)) * ms)
					}
				})
			}
			again(func() { client.Write(make([]byte, 100)) })
			again(func() { client.SetReadDeadline(time.Now().Add(ms)); client.Read(make([]byte, 1000)) })
			for range 2 {
				again(func() { server.Read(make([]byte, 10)) })
				again(func() { server.Write(make([]byte, 1000)) })
			}
			again(func() { server.SetReadDeadline(time.Now().Add(ms)) })
			again(func() { server.SetWriteDeadline(time.Now().Add(ms)) })
			again(func() { server.SetDeadline(time.Time{}) })
			again(func() { server.Enter(exempt); server.Enter(usual) })
			again(func() { server.Use(); server.Beat(); server.Timeout(); tracker.Stats() })
			if rand.IntN(2) == 0 {
				time.Sleep(time.Duration(rand.IntN(150)) * ms)
				server.Close()
				server.Close()
			}
			users.Wait()
			server.Close()
		})
	}
	wait.Wait()
	eventually(t, "each has one outcome", func() bool { // a timeout that was first may be counted after Close has returned
		st := tracker.Stats()
		ended := st.Closed
		for _, n := range st.TimedOut {
			ended += n
		}
		return st.Tracked == 40 && ended == 40 && st.Live == 0
	})
}

// Of a timeout and a Close that come together each is the outcome now and then,
// and never both.
func TestCloseAndTimeoutTogetherHaveOneOutcome(t *testing.T) {
	t.Parallel()
	const n, limit = 200, 30 * time.Millisecond
	tracker := newTracker(t, idle.Policy{IdleTimeout: limit})
	var wait sync.WaitGroup
	for i := range n {
		server, _ := connect(t, tracker, nil)
		wait.Go(func() {
			time.Sleep(limit + time.Duration(i)*tick/n)
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			if err := read1(server); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	eventually(t, "each has one outcome", func() bool { // a timeout that was first may be counted after Close has returned
		st := tracker.Stats()
		return st.Closed+st.TimedOut[idle.ReasonIdle] == n && st.Live == 0
	})
}
