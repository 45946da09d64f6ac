//go:build proof

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startCluster starts three NATS servers as one.
func startCluster(t *testing.T) (servers []*server.Server, urls string) {
	t.Helper()
	first := freePorts(t, 6)
	var routes, all []string
	for i := range 3 {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", first+3+i))
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", first+i))
	}
	for i := range 3 {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: first + i, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: first + 3 + i},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(most) {
			t.Fatal("a server of the cluster is not ready")
		}
		eventually(t, "the cluster has a leader", s.JetStreamIsCurrent)
	}
	return servers, strings.Join(all, ",")
}

// TestClusterServerDies: of three NATS servers that keep the buckets three times, the one that
// leads the leases dies. Limits are changed while the others elect another one: that works, or
// says that it did not. Directories answer all the time, but for a few seconds.
func TestClusterServerDies(t *testing.T) {
	skipShort(t)
	servers, urls := startCluster(t)
	f := populated(t, options{clients: 300, engine: urls, replicas: 3})
	died := false
	for _, s := range servers {
		if s.JetStreamIsStreamLeader("$G", "KV_fleet-leases") {
			s.Shutdown()
			died = true
		}
	}
	if !died {
		t.Fatal("no server leads the leases")
	}
	silent, last := time.Duration(0), time.Now()
	for begun := time.Now(); time.Since(begun) < 15*time.Second; time.Sleep(20 * time.Millisecond) {
		if _, err := f.nc.Who(t.Context(), clientName(1)); err == nil {
			silent, last = max(silent, time.Since(last)), time.Now()
		}
	}
	silent = max(silent, time.Since(last))
	t.Log("who was silent for ", silent.Round(time.Millisecond))
	if silent >= 15*time.Second {
		t.Errorf("no directory has answered for %v", silent)
	}
	eventually(t, "limits can be changed", func() bool {
		verdicts, err := changeLimits(t.Context(), f.nc, 3, "idle=45s")
		if err != nil {
			t.Log("-set says: ", err)
		}
		return err == nil && len(verdicts) == 3
	})
	mustSettle(t, f)
	mustLoseNothing(t, f)
}
