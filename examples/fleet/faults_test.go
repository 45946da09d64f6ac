//go:build proof

package main

import (
	"io"
	"net"
	"testing"
	"time"
)

// skipShort skips what takes long.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for real seconds")
	}
}

// TestEngineOutage: the engine is away for 20 s. No connection is lost by that, some are cut
// meanwhile, and the directories are right soon after the engine is back.
func TestEngineOutage(t *testing.T) {
	skipShort(t)
	f := populated(t, options{clients: 600})
	before, err := f.report(question{Where: true})
	if err != nil {
		t.Fatal(err)
	}
	port := f.server.Addr().(*net.TCPAddr).Port
	f.server.Shutdown()
	f.server.WaitForShutdown()
	begun := time.Now()
	f.mustSee(t, "fleet_engine_connected", 0)
	f.mustSee(t, "fleet_lease_held", 0)
	f.mustSee(t, "fleet_ready", 1) // its clients can stay, and newcomers are welcome
	time.Sleep(15*time.Second - time.Since(begun))
	during, err := f.report(question{Where: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range during.Places {
		if p != before.Places[i] {
			t.Fatalf("the engine is away, and client %d has gone from %+v to %+v", i, before.Places[i], p)
		}
	}
	if _, err := f.report(question{Cut: 100}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // they have noticed
	if err := f.connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20*time.Second - time.Since(begun))
	if f.server, err = startEngine(f.dir, port); err != nil {
		t.Fatal(err)
	}
	t.Log("right again after ", mustSettle(t, f))
	mustLoseNothing(t, f)
}

// TestShortOutage: the engine is away for less than a lease. No lease is lost, but batches
// may be.
func TestShortOutage(t *testing.T) {
	skipShort(t)
	f := populated(t, options{clients: 600})
	for range 3 {
		if _, err := f.report(question{Cut: 200}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // some are coming back
		port := f.server.Addr().(*net.TCPAddr).Port
		f.server.Shutdown()
		f.server.WaitForShutdown()
		time.Sleep(time.Second)
		var err error
		if f.server, err = startEngine(f.dir, port); err != nil {
			t.Fatal(err)
		}
		if err := f.connected(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Log("right again after ", mustSettle(t, f))
	}
	mustLoseNothing(t, f)
}

// TestDelay: what nodes and engine send each other is late, by different times in the two
// directions, while clients move about.
func TestDelay(t *testing.T) {
	skipShort(t)
	f := newFleet(t, options{})
	f.clients = 600
	proxy := delay(t, f.server.Addr().String(), 300*time.Millisecond, 150*time.Millisecond)
	f.through = "nats://" + proxy
	for i := range f.nodes { // the supervisor starts them again, behind the proxy
		f.node(i).cmd.Process.Kill()
	}
	time.Sleep(time.Second)
	eventually(t, "all are back", func() bool { return allReady(f.mustStates(t), 3) })
	if err := f.populate(); err != nil {
		t.Fatal(err)
	}
	f.rate = lettersPerSecond
	for range 5 {
		if err := f.connected(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.report(question{Cut: 100}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	if err := f.connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log("right after ", mustSettle(t, f))
	mustLoseNothing(t, f)
}

// delay returns the address of a proxy that passes on everything late.
func delay(t *testing.T, to string, up, down time.Duration) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			go passOn(b, a, up)
			go passOn(a, b, down)
		}
	}()
	return ln.Addr().String()
}

// passOn copies bytes, each of them late by d.
func passOn(to io.WriteCloser, from io.Reader, d time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	late := make(chan piece, 10_000)
	go func() {
		defer to.Close()
		for p := range late {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				for range late {
				}
				return
			}
		}
	}()
	defer close(late)
	for {
		b := make([]byte, 16<<10)
		n, err := from.Read(b)
		if n > 0 {
			late <- piece{b[:n], time.Now().Add(d)}
		}
		if err != nil {
			return
		}
	}
}

// knownAt returns how many clients the directory of one node knows at another one, or -1 if
// it does not answer.
func (f *fleet) knownAt(t *testing.T, directory, at string) int {
	t.Helper()
	states, _ := f.nc.States(t.Context(), f.processCount(), 300*time.Millisecond) // one that is stopped does not answer
	for _, s := range states {
		if s.Node == directory {
			return s.Known[at]
		}
	}
	return -1
}
