//go:build proof

package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// metrics returns the metrics of the fleet that a node serves, without their labels; none if it
// does not answer.
func metrics(address string) map[string]float64 {
	all := map[string]float64{}
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return all
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if name, _, ok := strings.Cut(series, "{"); ok && strings.HasPrefix(name, "fleet_") {
			all[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return all
}

// mustShow waits until a node shows a value, or as much of what it counts.
func mustShow(t *testing.T, address, metric string, want float64) {
	t.Helper()
	var got map[string]float64
	for begun := time.Now(); time.Since(begun) < most; time.Sleep(50 * time.Millisecond) {
		got = metrics(address)
		if value, ok := got[metric]; ok && (value == want || strings.HasSuffix(metric, "_total") && value > want) {
			t.Logf("%s of %s is %v after %v", metric, address, value, time.Since(begun).Round(time.Millisecond))
			return
		}
	}
	t.Errorf("after %v %s of %s is not %v: %v", most, metric, address, want, got)
}

// opsOf returns where a node serves its metrics.
func (f *fleet) opsOf(i int) string { return addressOf(f.ops, i+1) }

// mustSee waits until all nodes show a value.
func (f *fleet) mustSee(t *testing.T, metric string, want float64) {
	t.Helper()
	for i := range f.nodes {
		mustShow(t, f.opsOf(i), metric, want)
	}
}

// startAlone starts a node that nobody supervises, for a hundred clients.
func startAlone(t *testing.T, engine string) (*process, node.Config) {
	t.Helper()
	first := freePorts(t, 2)
	c := node.Config{Name: "node1", Fleet: "fleet", Engine: engine, Most: 100, Over: time.Second,
		Address: fmt.Sprintf("127.0.0.1:%d", first), Ops: fmt.Sprintf("127.0.0.1:%d", first+1)}
	p, err := start("node", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p, c
}

// readiness returns what a balancer is told.
func readiness(ops string) (status int, why string) {
	res, err := http.Get("http://" + ops + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// TestNoEngineAtStart: a node that starts before NATS waits for it.
func TestNoEngineAtStart(t *testing.T) {
	port := freePorts(t, 1)
	_, c := startAlone(t, fmt.Sprintf("nats://127.0.0.1:%d", port))
	mustShow(t, c.Ops, "fleet_engine_connected", 0)
	if status, why := readiness(c.Ops); status != http.StatusServiceUnavailable || !strings.Contains(why, "lease") {
		t.Errorf("without NATS a balancer gets %d, %q", status, why)
	}
	engine, err := startEngine(t.TempDir(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Shutdown()
	mustShow(t, c.Ops, "fleet_ready", 1)
	mustShow(t, c.Ops, "fleet_lease_held", 1)
	if status, why := readiness(c.Ops); status != http.StatusOK {
		t.Errorf("with NATS a balancer gets %d, %q", status, why)
	}
}

// TestSameAddress: a second process at the address of a node ends. It does not take a share of the
// clients.
func TestSameAddress(t *testing.T) {
	engine, err := startEngine(t.TempDir(), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Shutdown()
	_, c := startAlone(t, engine.ClientURL())
	mustShow(t, c.Ops, "fleet_ready", 1)
	c.Name, c.Ops = "node2", ""
	second, err := start("node", c)
	if err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(most, func() { second.cmd.Process.Kill() })
	defer stuck.Stop()
	if err := second.cmd.Wait(); err == nil || second.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the second process has ended with %v", err)
	}
}

// TestOldEngine: a node at a NATS server that is too old has no lease, and keeps trying.
func TestOldEngine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintf(conn, `INFO {"server_id":"old","version":"2.10.29","proto":1,"max_payload":1048576}`+"\r\n")
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "PING") {
						fmt.Fprint(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	_, c := startAlone(t, "nats://"+ln.Addr().String())
	mustShow(t, c.Ops, "fleet_engine_connected", 1)
	mustShow(t, c.Ops, "fleet_lease_held", 0)
	if status, why := readiness(c.Ops); status != http.StatusServiceUnavailable {
		t.Errorf("a balancer gets %d, %q", status, why)
	}
}

// TestMetricNames: what the alerts and their page name exists.
func TestMetricNames(t *testing.T) {
	f := newFleet(t, options{})
	known := metrics(f.opsOf(0))
	for _, file := range []string{"../observability/alerts.yaml", "../../docs/operations.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, name := range regexp.MustCompile(`fleet_[a-z_]+`).FindAllString(string(text), -1) {
			names[name] = true
		}
		for name := range maps.Keys(names) {
			if _, ok := known[name]; !ok {
				t.Errorf("%s names %s, which no node has", file, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s names no metric of the fleet", file)
		}
	}
}
