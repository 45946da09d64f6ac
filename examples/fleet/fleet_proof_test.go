//go:build proof

package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// most is how long a test waits for what should take a second or two. The machine may be
// busy.
const most = 2 * time.Minute

// freePorts returns the first of n ports that are free. Systems give outgoing connections
// higher ports. Crowds make thousands of those, which could take a port before a node does.
func freePorts(t *testing.T, n int) int {
	t.Helper()
next:
	for range 1000 {
		first := 10_000 + rand.IntN(20_000)
		for i := range n {
			ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+i))
			if err != nil {
				continue next
			}
			ln.Close()
		}
		return first
	}
	t.Fatal("no ports are free")
	return 0
}

// newFleet starts a fleet, whose clients have not come yet.
func newFleet(t *testing.T, o options) *fleet {
	t.Helper()
	o.nodes, o.fleet = 3, cmp.Or(o.fleet, "fleet")
	first := freePorts(t, 2*o.nodes+o.directories+1)
	o.address, o.ops = fmt.Sprintf("127.0.0.1:%d", first), fmt.Sprintf("127.0.0.1:%d", first+o.nodes)
	o.beat, o.over, o.out = time.Second, max(o.over, 5*time.Second), t.Logf
	f, err := startFleet(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

// populated starts a fleet whose clients are connected, and write to each other.
func populated(t *testing.T, o options) *fleet {
	t.Helper()
	return populatedAt(t, o, lettersPerSecond)
}

// populatedAt is populated with so many letters a second.
func populatedAt(t *testing.T, o options, rate float64) *fleet {
	t.Helper()
	f := newFleet(t, o)
	if err := f.populate(); err != nil {
		t.Fatal(err)
	}
	f.rate = rate
	if err := f.connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, f)
	return f
}

// mustSettle waits until no client is misplaced, and returns how long that took.
func mustSettle(t *testing.T, f *fleet) time.Duration {
	t.Helper()
	begun := time.Now()
	worst, example, err := f.oracle.settle(t.Context(), most)
	if err != nil || worst > 0 {
		for _, s := range f.mustStates(t) {
			t.Logf("%s: ready %t, lease renewed %.1f s ago, %d peers, knows %v", s.Node, s.Ready, s.LeaseAge, s.Peers, s.Known)
			t.Log(metrics(s.Lease.Ops))
		}
		t.Fatalf("after %v %d clients are misplaced: %s; %v", most, worst, example, err)
	}
	return time.Since(begun)
}

// mustLoseNothing ends a test: every letter comes, and every client is where it is said to be.
func mustLoseNothing(t *testing.T, f *fleet) {
	t.Helper()
	r, err := f.finish(result{})
	if err != nil || r.Lost > 0 || r.Misplaced > 0 || r.Letters == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	t.Logf("%d letters, %d times one was repeated, none lost", r.Letters, r.LettersAgain)
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > most {
			t.Fatalf("after %v still not: %s", most, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

func (f *fleet) mustStates(t *testing.T) []node.State {
	t.Helper()
	var states []node.State
	eventually(t, "the test is connected to the engine", func() (ok bool) {
		var err error
		states, err = f.nc.States(t.Context(), f.processCount(), 2*time.Second)
		return err == nil
	})
	return states
}

// mustChange changes limits, again if not all nodes have answered within the seconds that the
// command waits.
func (f *fleet) mustChange(t *testing.T, settings ...string) (verdicts []node.Verdict) {
	t.Helper()
	eventually(t, "all nodes answer to new limits", func() bool {
		var err error
		verdicts, err = changeLimits(t.Context(), f.nc, f.nodes, settings...)
		return err == nil && len(verdicts) == f.nodes
	})
	return verdicts
}

func (f *fleet) whereIs(client string) string {
	places, err := f.nc.Who(context.Background(), client)
	if err != nil {
		return "unknown"
	}
	return places[client].Node
}

// guest connects a client by hand, which says nothing after its hello.
func (f *fleet) guest(t *testing.T, i int, name string, session uint64) *guest {
	t.Helper()
	conn, err := net.Dial("tcp", f.addresses()[i])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write(wire.NewHello(name, session).Append(nil)); err != nil {
		t.Fatal(err)
	}
	g := &guest{conn, bufio.NewReader(conn)}
	if fr := g.next(t); fr.Kind != wire.Welcome || string(fr.Body) != nodeName(i) {
		t.Fatalf("%c %q", fr.Kind, fr.Body)
	}
	return g
}

type guest struct {
	net.Conn
	r io.Reader
}

func (g *guest) next(t *testing.T) wire.Frame {
	t.Helper()
	g.SetReadDeadline(time.Now().Add(most))
	f, err := wire.ReadFrame(g.r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mustClose waits until the gateway has closed the connection, and returns the last words.
func (g *guest) mustClose(t *testing.T) (words string) {
	t.Helper()
	g.SetReadDeadline(time.Now().Add(most))
	for {
		f, err := wire.ReadFrame(g.r)
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Fatal("it is still open")
		}
		if err != nil {
			return words
		}
		words = string(f.Body)
	}
}

// TestPresence: a query knows of an arrival, a move to another node, and a leave.
func TestPresence(t *testing.T) {
	f := newFleet(t, options{})
	first := f.guest(t, 0, "anna", 1)
	t.Log("arrived: ", eventually(t, "anna is at node1", func() bool { return f.whereIs("anna") == "node1" }))

	second := f.guest(t, 1, "anna", 2)
	if words := first.mustClose(t); words != "you have connected elsewhere" {
		t.Errorf("the old connection was told %q", words)
	}
	t.Log("moved: ", eventually(t, "anna is at node2", func() bool { return f.whereIs("anna") == "node2" }))
	eventually(t, "node1 has shed her", func() bool {
		s := f.mustStates(t)
		return len(s) == 3 && s[0].Ended["takeover"] == 1 && s[0].Clients == 0 && s[1].Clients == 1
	})

	third := f.guest(t, 2, "anna", 1) // an old session that comes late
	third.mustClose(t)
	eventually(t, "anna is still at node2", func() bool { return f.whereIs("anna") == "node2" })
	second.Close()
	t.Log("left: ", eventually(t, "anna is nowhere", func() bool { return f.whereIs("anna") == "" }))
}

// TestKill: clients of a node that was killed are gone when its lease has run out, and not
// long after.
func TestKill(t *testing.T) {
	f := newFleet(t, options{})
	for i := range 30 {
		f.guest(t, i%3, fmt.Sprint("guest-", i), 1)
	}
	for i := range 30 {
		eventually(t, "all are there", func() bool { return f.whereIs(fmt.Sprint("guest-", i)) == nodeName(i%3) })
	}
	if err := f.signal(2, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i := range 30 {
		want := nodeName(i % 3)
		if want == "node3" {
			want = ""
		}
		eventually(t, "the clients of node3 are gone, and no others", func() bool { return f.whereIs(fmt.Sprint("guest-", i)) == want })
	}
	t.Log("gone after ", time.Since(begun)) // TestDeadNode is about that
	eventually(t, "node3 is back", func() bool { return allReady(f.mustStates(t), 3) })
	f.guest(t, 2, "guest-2", 2)
	eventually(t, "guest-2 is at node3 again", func() bool { return f.whereIs("guest-2") == "node3" })
}

// TestLimits: new limits hold for open connections of all nodes. Bad ones are refused by all,
// and change nothing, also for a node that starts later.
func TestLimits(t *testing.T) {
	f := newFleet(t, options{})
	set := func(settings ...string) []node.Verdict { return f.mustChange(t, settings...) }
	want := node.DefaultLimits()
	want.Write, want.Idle = node.Duration(7*time.Second), node.Duration(time.Hour)
	for _, v := range set("write=7s", "idle=1h") {
		if v.Refused != "" || v.Limits != want {
			t.Errorf("%+v", v)
		}
	}
	var all []*guest
	for i := range 3 {
		all = append(all, f.guest(t, i, fmt.Sprint("silent-", i), 1))
	}
	for settings, says := range map[string]string{
		"idle=-5s":             "idle is -5s",
		"idle=soon":            "soon",
		"idel=1s":              "idel",
		"idle=1s handshake=0s": "handshake is 0s", // the valid part must not hold either
	} {
		for _, v := range set(strings.Fields(settings)...) {
			if !strings.Contains(v.Refused, says) || v.Limits != want {
				t.Errorf("%s: %+v", settings, v)
			}
		}
	}
	f.mustSee(t, "fleet_limits_refused", 1)
	for _, v := range set("idle=1s") {
		if v.Refused != "" {
			t.Errorf("%+v", v)
		}
	}
	begun := time.Now()
	for _, g := range all {
		if words := g.mustClose(t); !strings.Contains(words, "IdleTimeout of 1s") {
			t.Errorf("it was told %q", words)
		}
	}
	t.Log("all are closed after ", time.Since(begun))

	// A bad entry that was put by hand is the last one when a node starts.
	control, err := f.nc.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.PutString(t.Context(), "limits", `{"idle": 3}`); err != nil {
		t.Fatal(err)
	}
	if err := f.signal(0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want.Idle = node.Duration(time.Second)
	eventually(t, "node1 has the limits of the others", func() bool {
		s := f.mustStates(t)
		return allReady(s, 3) && !slices.ContainsFunc(s, func(s node.State) bool { return s.Limits.Limits != want || s.Limits.Refused == "" })
	})
}

// TestDrain: a drain moves all clients to the other nodes, not sooner than it should, in equal
// shares, and no letter is lost.
func TestDrain(t *testing.T) {
	f := populated(t, options{clients: 600, over: 6 * time.Second})
	if _, err := f.nc.Drain(t.Context(), "node2", f.over); err != nil {
		t.Fatal(err)
	}
	if _, err := f.nc.Drain(t.Context(), "node2", f.over); err == nil {
		t.Error("it is drained twice at the same time")
	}
	eventually(t, "node2 has no clients", func() bool { return f.knownAt(t, "node1", "node2") == 0 })
	r, err := f.report(question{Moves: true})
	if err != nil {
		t.Fatal(err)
	}
	shares := map[string]int{}
	first, last := time.Now(), time.Time{}
	for _, m := range r.Moves {
		shares[m.Node]++
		if m.Told.Before(first) {
			first = m.Told
		}
		if m.Told.After(last) {
			last = m.Told
		}
	}
	if n := len(r.Moves); n < 195 || n > 205 || shares["node1"] < n*45/100 || shares["node3"] < n*45/100 || shares["node2"] > 0 {
		t.Errorf("%d clients have moved, to %v", n, shares)
	}
	if took := last.Sub(first); took < f.over*3/4 {
		t.Errorf("all were told within %v, and not over %v", took, f.over)
	}
	e, p := evenness(r.Moves, f.over, 2) // a busy machine may be less even
	t.Logf("in any second at most %.1f %% more or less, and %.2f times its share at any node", e, p)
	mustSettle(t, f)
	mustLoseNothing(t, f)
}

// TestHeartbeats counts what the engine has to do while clients only beat, by its own count:
// as much as without clients.
func TestHeartbeats(t *testing.T) {
	clients, d := 20_000, 30*time.Second
	if testing.Short() {
		clients, d = 500, 5*time.Second
	}
	f := populated(t, options{clients: clients})
	f.rate = 0
	eventually(t, "no letter is under way", func() bool {
		r, err := f.report(question{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Waiting == 0
	})
	time.Sleep(3 * time.Second)
	count := func() int64 {
		v, err := f.server.Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.InMsgs + v.OutMsgs
	}
	before := count()
	time.Sleep(d)
	perSecond := float64(count()-before) / d.Seconds()
	t.Logf("%d clients beat every second: %.0f messages to and from the engine a second", clients, perSecond)
	if perSecond > 60 {
		t.Errorf("%d clients that beat every second cost the engine %.0f messages a second", clients, perSecond)
	}
	mustLoseNothing(t, f)
}
