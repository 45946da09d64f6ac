//go:build proof

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// restart stops the engine, calls meanwhile, and starts it again at the same port.
func (f *fleet) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	port := f.server.Addr().(*net.TCPAddr).Port
	f.server.Shutdown()
	f.server.WaitForShutdown()
	meanwhile()
	var err error
	if f.server, err = startEngine(f.dir, port); err != nil {
		t.Fatal(err)
	}
}

// TestLostStore deletes all that JetStream has stored. The fleet makes its buckets again, the
// new leases count as later than the old ones, and the limits that somebody had set hold on.
func TestLostStore(t *testing.T) {
	f := populated(t, options{clients: 600})
	f.mustChange(t, "idle=45s")
	var before []node.State
	eventually(t, "all nodes say which leases they have", func() bool {
		before = f.mustStates(t)
		return len(before) == f.nodes
	})
	f.restart(t, func() {
		if err := os.RemoveAll(filepath.Join(f.dir, "jetstream")); err != nil {
			t.Fatal(err)
		}
	})
	f.mustSee(t, "fleet_leases_begun_total", 2)
	eventually(t, "the test is connected", f.nc.IsConnected)
	eventually(t, "all nodes have later leases", func() bool {
		states := f.mustStates(t)
		if !allReady(states, 3) {
			return false
		}
		for i, s := range states {
			if s.Epoch <= before[i].Epoch {
				return false
			}
		}
		return true
	})
	if _, err := f.report(question{Cut: 100}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // they have noticed
	if err := f.connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log("right again after ", mustSettle(t, f))
	for _, s := range f.mustStates(t) {
		if got := time.Duration(s.Limits.Limits.Idle); got != 45*time.Second {
			t.Errorf("%s has an idle limit of %v; want 45s", s.Node, got)
		}
	}
	f.mustChange(t, "idle=50s")
	mustLoseNothing(t, f)
}

// TestRefusedCredentials has the engine refuse everybody for a few seconds, as while an
// operator changes passwords. The nodes come back.
func TestRefusedCredentials(t *testing.T) {
	f := populated(t, options{clients: 300})
	port := f.server.Addr().(*net.TCPAddr).Port
	f.server.Shutdown()
	f.server.WaitForShutdown()
	locked, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, Username: "someone", Password: "else", NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	locked.Start()
	if !locked.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server that refuses everybody is not ready")
	}
	f.mustSee(t, "fleet_engine_connected", 0)
	f.mustSee(t, "fleet_lease_held", 0)
	time.Sleep(3 * time.Second)
	locked.Shutdown()
	locked.WaitForShutdown()
	if f.server, err = startEngine(f.dir, port); err != nil {
		t.Fatal(err)
	}
	t.Log("right again after ", mustSettle(t, f))
	mustLoseNothing(t, f)
}

// TestHugeLimits has somebody put limits of 900 kB, which the engine takes. Every node refuses them
// in one short line of its log. It does not send them to whoever asks for its state.
func TestHugeLimits(t *testing.T) {
	logged := logOfChildren(t)
	f := newFleet(t, options{})
	control, err := f.nc.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"idle": "` + strings.Repeat("1", 900_000) + `s"}`, `{"` + strings.Repeat("idle", 225_000) + `": "1s"}`} {
		revision, err := control.PutString(t.Context(), node.KeyLimits, text)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "all nodes refuse", func() bool {
			states := f.mustStates(t)
			for _, s := range states {
				if s.Limits.Revision < control.Number(revision) {
					return false
				}
				if !strings.Contains(s.Limits.Refused, "limits have at most 1024") || s.Limits.Limits != node.DefaultLimits() {
					t.Fatalf("%.200s says %.200s, and has %+v", s.Node, s.Limits.Refused, s.Limits.Limits)
				}
			}
			return len(states) == f.nodes
		})
	}
	f.mustSee(t, "fleet_limits_refused", 1)
	for _, s := range f.mustStates(t) {
		if mean := s.Engine.OutBytes / s.Engine.OutMsgs; mean > 10_000 { // most are answers of its state
			t.Errorf("a message of %s has %d bytes in the mean", s.Node, mean)
		}
	}
	said := 0
	for line := range strings.Lines(logged()) {
		if len(line) > 500 {
			t.Errorf("a line of %d bytes is logged: %.200s", len(line), line)
		} else if strings.Contains(line, "the limits stay as they are: the entry has 9000") {
			said++
		}
	}
	if said != 2*f.nodes {
		t.Errorf("%d lines say that limits were refused; want %d", said, 2*f.nodes)
	}
	if verdicts := f.mustChange(t, "idle=45s"); verdicts[0].Refused != "" {
		t.Errorf("the next limits: %+v", verdicts)
	}
}

// logOfChildren returns what the processes log that the test starts from here on.
func logOfChildren(t *testing.T) (text func() string) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = log
	t.Cleanup(func() { // when they have ended
		os.Stderr = stderr
		log.Close()
		t.Logf("they have logged:\n%.10000s", text())
	})
	return func() string {
		b, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

// TestTwoFleets runs two fleets on one engine. Neither sees the other's nodes, clients or
// limits.
func TestTwoFleets(t *testing.T) {
	blue := populated(t, options{clients: 150, fleet: "blue"})
	green := populated(t, options{clients: 150, fleet: "green", engine: blue.server.ClientURL()})
	green.mustChange(t, "idle=45s")
	for _, s := range blue.mustStates(t) {
		if s.Limits.Limits != node.DefaultLimits() {
			t.Errorf("%s of blue has the limits of green: %+v", s.Node, s.Limits.Limits)
		}
	}
	for _, f := range []*fleet{blue, green} {
		mustSettle(t, f)
		mustLoseNothing(t, f)
	}
}

// TestDrainSaysWhatItKnows: the command that drains a node succeeds only if the node has said
// that it is empty, however often one of its answers is missing.
func TestDrainSaysWhatItKnows(t *testing.T) {
	t.Run("the engine is away for a moment", func(t *testing.T) {
		f := populated(t, options{clients: 300, over: 6 * time.Second})
		done := f.drainByCommand(t, "node2")
		time.Sleep(time.Second)
		f.restart(t, func() { time.Sleep(2500 * time.Millisecond) })
		if err := <-done; err != nil {
			t.Error(err)
		}
		eventually(t, "node2 is back, and empty", func() bool { return f.knownAt(t, "node1", "node2") == 0 })
	})
	t.Run("the node dies", func(t *testing.T) {
		f := populated(t, options{clients: 300, over: 20 * time.Second})
		done := f.drainByCommand(t, "node2")
		mustShow(t, f.opsOf(1), "fleet_draining", 1)
		mustShow(t, f.opsOf(1), "fleet_ready", 0)
		if err := f.signal(1, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "has lost its lease") {
			t.Errorf("the node was killed, and the command says %v", err)
		}
	})
}

// drainByCommand drains a node as the command does, and returns what comes of it.
func (f *fleet) drainByCommand(t *testing.T, name string) <-chan error {
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	go func() { done <- drainNode(ctx, f.options, name) }()
	return done
}
