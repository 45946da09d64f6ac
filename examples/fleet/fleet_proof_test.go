//go:build proof && unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// freePorts returns the first of n ports that are free. They are lower than those that systems give
// to outgoing connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
next:
	for range 1000 {
		first := 10_000 + rand.IntN(20_000)
		for i := range n {
			ln, err := net.Listen("tcp", address(first+i))
			if err != nil {
				continue next
			}
			ln.Close()
		}
		return first
	}
	panic("no ports are free")
}

// newFleet starts a fleet of three nodes, whose clients have connected.
func newFleet(t *testing.T, o options) *fleet {
	t.Helper()
	o.nodes, o.replicas, o.over = 3, max(1, o.replicas), 4*time.Second
	o.port = freePorts(t, 6)
	o.ops = o.port + 3
	f, err := startFleet(t.Context(), o)
	must(t, err)
	t.Cleanup(f.close)
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until missing returns "".
func await(t *testing.T, missing func(context.Context) string) {
	t.Helper()
	took, err := until(t.Context(), missing)
	must(t, err)
	t.Logf("%.2f s", took.Seconds())
}

// is is for await: it returns "" when a function returns what is wanted.
func is[T comparable](get func() T, want T) func(context.Context) string {
	return func(context.Context) string {
		if got := get(); got != want {
			return fmt.Sprintf("%v, want %v", got, want)
		}
		return ""
	}
}

// who returns a function for is.
func (f *fleet) who(client string) func() string {
	return func() string {
		node, err := f.view.Who(client)
		if err != nil {
			return err.Error()
		}
		return node
	}
}

// guest connects a client that says nothing after its hello, and returns the answer.
func (f *fleet) guest(t *testing.T, i int, hello string) (conn net.Conn, answer string) {
	t.Helper()
	conn, err := net.Dial("tcp", address(f.port+i))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintln(conn, hello)
	answer, err = bufio.NewReader(conn).ReadString('\n')
	must(t, err)
	return conn, strings.TrimSpace(answer)
}

// mustEnd waits until the node closes a connection, with words that contain some others.
func mustEnd(t *testing.T, conn net.Conn, says string) {
	t.Helper()
	if words, err := io.ReadAll(conn); err != nil || !strings.Contains(string(words), says) {
		t.Errorf("it ends with %q, %v; want %q", words, err, says)
	}
}

// mustDrop checks how many connections of the crowd were dropped.
func (f *fleet) mustDrop(t *testing.T, want int) {
	t.Helper()
	if _, dropped, last := f.crowd.events(); dropped != want {
		t.Errorf("%d connections were dropped, want %d; the last one was %s", dropped, want, last)
	}
}

// TestPlay plays all scenes.
func TestPlay(t *testing.T) {
	f := newFleet(t, options{clients: 300, kill: true, drain: true, outage: 8 * time.Second})
	must(t, f.play(t.Context()))
	f.mustDrop(t, f.meant)
	if moved, _, _ := f.crowd.events(); moved < 95 || f.meant < 95 {
		t.Errorf("%d clients have moved, and %d were dropped; want a hundred or more", moved, f.meant)
	}
	t.Log(f.result)
}

// TestNotFound: the checks see a client that isn't connected, and one that nobody knows of.
func TestNotFound(t *testing.T) {
	f := newFleet(t, options{clients: 6})
	f.guest(t, 0, "hello stranger 1")
	await(t, is(func() bool { return strings.Contains(f.allFound(t.Context()), "have 7 clients, not 6") }, true))
	conn, _ := f.crowd.all[4].connection()
	conn.Close()
	await(t, func(context.Context) string { return f.crowd.lacks(1) })
	f.mustDrop(t, 1)
}

// TestPresence: a client is found where it has arrived last, and its older connection ends.
func TestPresence(t *testing.T) {
	f := newFleet(t, options{clients: 1})
	old, _ := f.guest(t, 0, "hello anna 1")
	await(t, is(f.who("anna"), "node1"))
	latest, answer := f.guest(t, 1, "hello anna 2")
	if answer != "welcome node2" {
		t.Error(answer)
	}
	mustEnd(t, old, "takeover")
	await(t, is(f.who("anna"), "node2"))
	if _, answer := f.guest(t, 1, "hello anna 1"); answer != "bye there is a later session" {
		t.Error(answer)
	}
	again, _ := f.guest(t, 1, "hello anna 3") // at the same node
	mustEnd(t, latest, "takeover")
	await(t, is(f.who("anna"), "node2"))
	again.Close()
	await(t, is(f.who("anna"), ""))
	if _, answer := f.guest(t, 1, "hello a.b 1"); !strings.Contains(answer, `the name is "a.b"`) {
		t.Error(answer)
	}
}

// TestLimits: new limits hold for open connections of all nodes. Those that aren't valid change
// nothing, and leases say why.
func TestLimits(t *testing.T) {
	f := newFleet(t, options{clients: 1})
	var guests []net.Conn
	for i := range 3 {
		conn, _ := f.guest(t, i, fmt.Sprint("hello silent-", i, " 1"))
		guests = append(guests, conn)
	}
	nc, err := nats.Connect(f.nats)
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	control, err := js.KeyValue(t.Context(), "fleet-control")
	must(t, err)
	set := func(limits string) error {
		_, err := control.PutString(t.Context(), "limits", limits)
		return err
	}
	must(t, set("idle=soon write=2s"))
	await(t, func(ctx context.Context) string {
		nodes, err := f.view.Nodes(ctx)
		for i := range 3 {
			if l := nodes[nodeName(i)]; l.Limits != f.limits.String() || !strings.Contains(l.Refused, `idle is "soon"`) {
				return fmt.Sprintf("%s: %+v, %v", nodeName(i), l, err)
			}
		}
		return ""
	})
	await(t, is(func() float64 { return f.metrics(0)["fleet_limits_refused"] }, 1))
	must(t, set("idle=1s"))
	f.limits.Idle = time.Second
	await(t, f.ready)
	await(t, is(func() float64 { return f.metrics(0)["fleet_limits_refused"] }, 0))
	for _, conn := range guests {
		mustEnd(t, conn, "IdleTimeout of 1s")
	}
	if err := set(strings.Repeat(" ", 300)); err == nil {
		t.Error("limits of 300 bytes are stored")
	}
}

// TestStoppedNode: a node is stopped for longer than its lease, and continues with its clients.
func TestStoppedNode(t *testing.T) {
	f := newFleet(t, options{clients: 60})
	process := f.processes[0].Load()
	must(t, process.Signal(syscall.SIGSTOP))
	defer process.Signal(syscall.SIGCONT)
	held := func() bool {
		nodes, err := f.view.Nodes(t.Context())
		_, ok := nodes["node1"]
		return ok || err != nil
	}
	await(t, is(held, false))
	if at := f.who("client-0")(); at != "" {
		t.Errorf("a client of the node is at %q", at)
	}
	must(t, process.Signal(syscall.SIGCONT))
	await(t, is(held, true))
	await(t, f.allFound)
	await(t, is(func() float64 { return f.metrics(0)["fleet_leases_begun_total"] }, 2))
	f.mustDrop(t, 0)
}

// TestLostStore: NATS loses all that it has stored. The nodes make the buckets again.
func TestLostStore(t *testing.T) {
	f := newFleet(t, options{clients: 60})
	port := f.server.Addr().(*net.TCPAddr).Port
	f.server.Shutdown()
	f.server.WaitForShutdown()
	var err error
	if f.server, err = startNATS(t.TempDir(), port); err != nil {
		t.Fatal(err)
	}
	await(t, f.allFound)
	await(t, f.ready)
	if said, err := f.playLimits(t.Context()); err != nil {
		t.Error(said, err)
	}
	f.mustDrop(t, 0)
}

// TestServerOfClusterDies: three NATS servers store the buckets, and the one that leads the leases dies.
func TestServerOfClusterDies(t *testing.T) {
	first := freePorts(t, 6)
	var servers []*server.Server
	var urls, routes []string
	for i := range 3 {
		urls, routes = append(urls, "nats://"+address(first+i)), append(routes, "nats://"+address(first+3+i))
	}
	for i := range 3 {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: first + i, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: first + 3 + i}, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
		})
		must(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	for _, s := range servers {
		await(t, is(s.JetStreamIsCurrent, true))
	}
	f := newFleet(t, options{clients: 60, nats: strings.Join(urls, ","), replicas: 3})
	leader := slices.IndexFunc(servers, func(s *server.Server) bool { return s.JetStreamIsStreamLeader("$G", "KV_fleet-nodes") })
	if leader < 0 {
		t.Fatal("no server leads the leases")
	}
	servers[leader].Shutdown()
	await(t, f.allFound)
	await(t, is(func() bool { _, err := f.playLimits(t.Context()); return err == nil }, true))
	f.mustDrop(t, 0)
}

// TestLoneNode: a node waits for NATS, and another process with its name waits for its lease.
func TestLoneNode(t *testing.T) {
	port := freePorts(t, 5)
	start := func(n int) *exec.Cmd {
		config, err := json.Marshal(node.Config{Name: "node1", Fleet: "fleet", NATS: "nats://" + address(port), Address: address(port + n),
			Ops: address(port + n + 2), Replicas: 1, MaxConns: 10, Over: time.Second})
		must(t, err)
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), nodeEnv+"="+string(config)), os.Stderr
		_, err = cmd.StdinPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	readiness := func(n int) func() string {
		return func() string { status, _ := get(port+n+2, "/readyz"); return status }
	}
	const notReady = "503 Service Unavailable"
	first := start(1)
	await(t, is(readiness(1), notReady))
	engine, err := startNATS(t.TempDir(), port)
	must(t, err)
	defer engine.Shutdown()
	await(t, is(readiness(1), "200 OK"))
	start(2)
	await(t, is(readiness(2), notReady))
	time.Sleep(5 * time.Second) // longer than a lease
	if got := readiness(2)(); got != notReady {
		t.Errorf("two processes with the same name are ready: %s", got)
	}
	must(t, first.Process.Kill())
	await(t, is(readiness(2), "200 OK"))
}

// get returns what a node says to its operators.
func get(port int, path string) (status, body string) {
	res, err := http.Get("http://" + address(port) + path)
	if err != nil {
		return err.Error(), ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.Status, string(text)
}

// metrics returns the metrics of the fleet that a node serves, without labels.
func (f *fleet) metrics(i int) map[string]float64 {
	all := map[string]float64{}
	_, text := get(f.ops+i, "/metrics")
	for _, m := range regexp.MustCompile(`(?m)^(fleet_\w+)\{.*\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		all[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	return all
}

// TestQuiet: beats of clients stay in their node, so NATS has as much to do as without clients. And
// what the alerts name exists.
func TestQuiet(t *testing.T) {
	f := newFleet(t, options{clients: 600})
	count := func() int64 {
		v, err := f.server.Varz(nil)
		must(t, err)
		return v.InMsgs + v.OutMsgs
	}
	before, begun := count(), time.Now()
	time.Sleep(10 * time.Second)
	rate := float64(count()-before) / time.Since(begun).Seconds()
	t.Logf("%.1f messages a second to and from NATS", rate)
	if rate > 60 { // 600 clients beat 300 times a second
		t.Errorf("600 clients that beat cost NATS %.1f messages a second", rate)
	}
	alerts, err := os.ReadFile("../observability/alerts.yaml")
	must(t, err)
	known, names := f.metrics(0), regexp.MustCompile(`fleet_[a-z_]+`).FindAllString(string(alerts), -1)
	for _, name := range names {
		if _, ok := known[name]; !ok {
			t.Errorf("alerts.yaml names %s, which no node has", name)
		}
	}
	if len(names) == 0 {
		t.Error("alerts.yaml names no metric of the fleet")
	}
}
